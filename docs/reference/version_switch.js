// Puts a list of the versions of the site beside its name. The folder of each version is beside versions.js, which names them, the
// newest first. It is a script, because a page from a file may not read JSON. Without it, or with one version, nothing changes.
(() => {
  const versions = window.tickwheel_versions || [];
  const number = document.getElementById("projectnumber");
  if (versions.length < 2 || !number) return;
  const shown = number.textContent.trim();
  const list = document.createElement("select");
  list.id = "versions";
  list.title = "version";
  for (const version of versions) list.add(new Option(version, version, false, version === shown));
  number.replaceChildren(list);
  list.onchange = async () => {
    const folder = new URL(`../${list.value}/`, location);
    const page = location.pathname.split("/").pop();
    // another version may lack the page, and of a file nobody can ask whether it is there
    const answer = await fetch(new URL(page, folder), {method: "HEAD"}).catch(() => null);
    location = new URL(answer?.ok ? page : "index.html", folder);
  };
})();
