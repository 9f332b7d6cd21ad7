"""The man page, the guide and the unit name what the program has: its options and its metrics. man and systemd take them as they are.
A wrong option is named in one line."""
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import unittest

from service import PROGRAM, Service


def text_of(variable):
    with open(os.environ[variable]) as document:
        return document.read()


def options_of_program():
    text = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=True, timeout=20).stdout
    return set(re.findall(r"(?m)^ +(?:-h,)?(--[a-z-]+)", text)) - {"--help"}


class Documents(unittest.TestCase):
    def test_man_page_has_each_option(self):
        described = re.findall(r"(?m)^\.TP\n\.BI? (\\-\\-[a-z\\-]+)(?: |$)", text_of("MANUAL"))
        self.assertEqual(sorted(option.replace("\\-", "-") for option in described), sorted(options_of_program()))

    def test_guide_and_unit_have_only_options_of_the_program(self):
        guide = set(re.findall(r"`(--[a-z-]+)|timer_server (--[a-z-]+)", text_of("GUIDE")))
        named = {option for pair in guide for option in pair if option} | set(re.findall(r"(?<= )--[a-z-]+", re.search("ExecStart=.*", text_of("UNIT"))[0]))
        self.assertLessEqual(named - {"--help"}, options_of_program())

    def test_version_is_told_in_one_line(self):
        told = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True, timeout=20)
        self.assertRegex(told.stdout, r"\A\d+\.\d+\.\d+\n\Z")
        self.assertEqual(told.stderr, "")

    def test_guide_has_each_metric(self):
        with Service() as service:
            metrics = set(re.findall(r"(?m)^# TYPE (timer_server_\w+) ", service.ask("GET", "/metrics")[1]))
        named = set(re.findall(r"`(timer_server_\w+)`", text_of("GUIDE")))
        self.assertEqual(metrics, named)


    def test_guide_has_each_answer_of_a_put(self):
        with open(os.environ["OPENAPI"]) as document:
            described = set(json.load(document)["paths"]["/v1/timers/{id}"]["put"]["responses"]) - {"default"}
        table = re.search(r"\| `PUT` answers \|(?:.*\n)+?\n", text_of("GUIDE"))[0]
        self.assertEqual(set(re.findall(r"\d{3}", "".join(re.findall(r"(?m)^\| (\d.*?) \|", table)))), described)


# OpenSSL without an algorithm
NO_ALGORITHMS = """openssl_conf = all
[all]
providers = providers
[providers]
null = null
[null]
activate = 1
"""


class Installed(unittest.TestCase):
    @unittest.skipIf(shutil.which("systemd-analyze") is None, "systemd-analyze is not installed")
    def test_systemd_takes_the_unit(self):
        with tempfile.TemporaryDirectory() as folder:
            unit = os.path.join(folder, "timer_server.service")
            with open(unit, "w") as out:  # the program need not be installed
                out.write(text_of("UNIT").replace("/usr/bin/timer_server", os.path.abspath(PROGRAM)))
            done = subprocess.run(["systemd-analyze", "--man=no", "verify", unit], capture_output=True, text=True, timeout=20)
            # it only warns of a line that it does not know, and ends with 0
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    @unittest.skipIf(shutil.which("man") is None or shutil.which("groff") is None, "man or groff is not installed")
    def test_man_page_is_well_formed(self):
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "100", "MANPAGER": "cat"}
        done = subprocess.run(["man", "--warnings", "-l", os.environ["MANUAL"]], capture_output=True, text=True, env=environment, timeout=20)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for part in ("timer_server - calls HTTP endpoints at given times", "--listen ADDRESS:PORT", "EXIT STATUS"):
            self.assertIn(part, re.sub(".\b", "", done.stdout))


class WrongOptions(unittest.TestCase):
    def test_file_of_secrets_is_refused_if_openssl_lacks_what_it_needs(self):
        with tempfile.TemporaryDirectory() as folder:
            secret, configuration = f"{folder}/secret", f"{folder}/openssl.cnf"
            with open(os.open(secret, os.O_CREAT | os.O_WRONLY, 0o600), "w") as out:
                out.write("0123456789abcdef\n")
            with open(configuration, "w") as out:
                out.write(NO_ALGORITHMS)
            for option, expected in (("--tokens", "SHA-256"), ("--secret", "HMAC-SHA256")):
                done = subprocess.run([PROGRAM, "--listen", "127.0.0.1:0", option, secret], cwd=folder, capture_output=True,
                                      env={**os.environ, "OPENSSL_CONF": configuration}, text=True, timeout=20)
                self.assertEqual(done.returncode, 2, option)
                self.assertRegex(done.stderr, rf"^timer_server: {option} .*: libcrypto cannot compute {expected}.*\n$")

    def test_wrong_option_is_named_in_one_line(self):
        with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            for options, expected in [
                    (["--nonsense"], "--nonsense"),
                    (["--log", "xml"], "--log: 'xml' .* text or json"),
                    (["--drain", "soon"], "--drain: 'soon' is not a duration"),
                    (["--listen", "localhost:80"], "--listen localhost:80: give an address"),
                    (["--listen", "0.0.0.0:0"], "without --tokens the service listens on loopback only"),
                    (["--listen", address], f"--listen {address}: address already in use"),
                    (["--tokens", "/dev/null"], "--tokens /dev/null: it is not a regular file"),
                    (["--secret", "none"], "--secret none: No such file"),
                    (["--allow", "10.0.0.1/8"], "--allow 10.0.0.1/8: .* beyond the prefix"),
                    (["--store", "mysql://user:password@host/"], "--store: it begins neither with sqlite: nor"),
                    (["--store", "sqlite:/nonexistent/x.db"], "/nonexistent/x.db: cannot open it: No such file"),
                    (["--callback-total-timeout", "10s"], "--callback-total-timeout: it is shorter than --callback-timeout; without them "),
                    (["--callback-timeout", "90s"], "--callback-total-timeout: it is shorter than --callback-timeout; without them "),
                    (["--lease", "1ms"], "timer_server: --lease: it is shorter than 100 ms\n"),
                    (["--store", "postgresql://host/shop", "--name", "a\n"], "timer_server: --name: it is longer than 255 bytes, "),
                    (["--requests-per-second", "5"], "timer_server: --requests-per-second requires --tokens\n"),
                    (["--burst", "5"], "timer_server: --burst requires --tokens\n"),
                    (["--schema", "shop"], "timer_server: --schema: it needs --store postgresql://"),
                    (["--name", "a"], "timer_server: --name: it needs --store postgresql://"),
            ]:
                done = subprocess.run([PROGRAM, "--listen", "127.0.0.1:0", *options] if "--listen" not in options else [PROGRAM, *options],
                                      cwd=folder, capture_output=True, text=True, timeout=20)
                self.assertEqual(done.returncode, 2, options)
                output = done.stdout + done.stderr
                self.assertRegex(output, expected)
                self.assertNotIn("password", output)
                self.assertEqual(done.stderr.count("\n") + done.stdout.count(" failed "), 1, output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
