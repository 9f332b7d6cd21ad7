"""Looks at a version of the site in Chromium: browser_check.py FOLDER

Each page loads from a static server without a network, and loads nothing from another host. Each link inside the site leads to a page
and a place there that exist. The search finds names, and the version switch leads to another version; both also from files. Prints a
line for each fault.
"""
import functools
import http.server
import pathlib
import shutil
import sys
import tempfile
import threading
from urllib.parse import unquote, urldefrag

from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

# what is typed, and the page that its result leads to
SEARCHES = {
    "idle_timeout": "idle__timeout_8hpp.html", "timer_service": "classtickwheel_1_1timer__service.html",
    "remote_handle": "classtickwheel_1_1remote__handle.html", "stall_grace": "structtickwheel_1_1service__options.html",
    "retry_timer": "classtickwheel_1_1retry__timer.html", "expiring_map": "classtickwheel_1_1expiring__map.html",
    "tw_timer_start": "tickwheel_8h.html", "write_prometheus": "prometheus_8hpp.html",
    "wheel_geometry": "structtickwheel_1_1wheel__geometry.html",
    "execution": "classtickwheel_1_1durable_1_1execution.html",
    "Getting started": "getting-started.html",
}
OTHER = "0.0.0"  # a second version, which lacks one page
LACKING = "idle-timeouts.html"
PATIENCE = 20  # seconds, on a busy machine

faults = []


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


def serve(folder):
    """Returns the address of a static server for `folder`."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(QuietHandler, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/"


def browser():
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1400,1000",
                     "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)


def complaints_of(driver):
    """What the browser has logged: scripts that failed, files that are not there."""
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE" and "/favicon.ico " not in entry["message"]]


def look_at_pages(driver, base, folder):
    """Loads each page. Returns the links of each page, and the places in it that a link may name."""
    links, places, host = {}, {}, base.rsplit("/", 2)[0] + "/"
    for file in sorted(folder.glob("*.html")):
        driver.get(base + file.name)
        faults.extend(f"{file.name}: {message}" for message in complaints_of(driver))
        if not driver.find_elements(By.CSS_SELECTOR, "div.header, div.contents"):
            faults.append(f"{file.name} shows nothing")
        loaded = driver.execute_script("return performance.getEntriesByType('resource').map(entry => entry.name)")
        faults.extend(f"{file.name} loads {url}" for url in loaded if not url.startswith((host, "data:")))
        links[file.name] = driver.execute_script("return [...document.querySelectorAll('a[href]')].map(link => link.href)")
        places[file.name] = set(driver.execute_script(
            "return [...document.querySelectorAll('[id], a[name]')].map(place => place.id || place.name)"))
    return links, places


def look_at_links(base, folder, links, places):
    """Returns how many links lead to pages of the site."""
    inside, host = 0, base.rsplit("/", 2)[0] + "/"
    for page, targets in links.items():
        for target in sorted(set(targets)):
            if not target.startswith(host) and target.startswith(("https:", "http:", "javascript:")):
                continue
            if not target.startswith(base):
                faults.append(f"{page} has a link that leads out of its version: {target}")
                continue
            inside += 1
            name, place = map(unquote, urldefrag(target[len(base):]))
            if not (folder / name).is_file():
                faults.append(f"{page} has a link to {name}, which is not there")
            elif place and place not in places.get(name, {place}):
                faults.append(f"{page} has a link to {name}#{place}, and that place is not there")
    return inside


def look_at_search(driver, base):
    for typed, page in SEARCHES.items():
        driver.get(base + "index.html")
        driver.find_element(By.ID, "MSearchField").send_keys(typed)
        driver.switch_to.frame("MSearchResults")
        try:
            WebDriverWait(driver, PATIENCE).until(results_of)
        except TimeoutException:
            faults.append(f"{base}: the search does not find {typed}")
        else:
            found = results_of(driver)
            if not any(href.rsplit("/", 1)[-1].split("#")[0] == page for href in found):
                faults.append(f"{base}: the search for {typed} leads to {found} instead of {page}")
        driver.switch_to.default_content()


def results_of(driver):
    """The links of the results that are shown."""
    return driver.execute_script("""
        return [...document.querySelectorAll('.SRResult')].filter(result => result.style.display == 'block')
          .flatMap(result => [...result.querySelectorAll('a')]).map(link => link.href)""")


def look_at_versions(driver, base, version, is_served):
    """The page that is shown stays if the other version has it and a server can say so."""
    for page in ("deadlines.html", LACKING):
        driver.get(f"{base}{version}/{page}")
        to = page if is_served and page != LACKING else "index.html"
        lists = driver.find_elements(By.ID, "versions")
        if not lists:
            faults.append(f"{base}{version}/{page} has no version switch")
            continue
        Select(lists[0]).select_by_value(OTHER)
        try:
            WebDriverWait(driver, PATIENCE).until(lambda _: driver.current_url == f"{base}{OTHER}/{to}")
        except TimeoutException:
            faults.append(f"{base}{version}/{page}: the version switch led to {driver.current_url}")


def main(folder):
    folder = folder.resolve()
    with tempfile.TemporaryDirectory() as site:
        site = pathlib.Path(site)
        for version in (folder.name, OTHER):
            shutil.copytree(folder, site / version)
        (site / OTHER / LACKING).unlink()
        (site / "versions.js").write_text(f'window.tickwheel_versions = ["{folder.name}"];\n')
        shown, driver = site / folder.name, browser()
        try:
            served, files = serve(site), f"file://{site}/"
            base = f"{served}{folder.name}/"
            links, places = look_at_pages(driver, base, shown)
            inside = look_at_links(base, shown, links, places)
            if driver.find_elements(By.ID, "versions"):
                faults.append("there is a version switch, although there is one version")
            for address in (served, files):
                look_at_search(driver, f"{address}{folder.name}/")
            (site / "versions.js").write_text(f'window.tickwheel_versions = ["{folder.name}", "{OTHER}"];\n')
            for address in (served, files):
                look_at_versions(driver, address, folder.name, address == served)
        finally:
            driver.quit()
    if len(links) < 200 or inside < 5000:
        faults.append(f"{len(links)} pages with {inside} links inside the site: that is not the site")
    for fault in faults:
        print(fault)
    print(f"{len(links)} pages, {inside} links inside the site, {len(SEARCHES)} searches, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
