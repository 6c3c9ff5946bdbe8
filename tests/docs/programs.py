#!/usr/bin/env python3
"""The programs of README.md, the C program of the tutorial and the plan of the reference work.

usage: programs.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
import atexit
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.abspath(sys.argv[2]), "tests", "server"))
from trouble import (BUILD, PATIENCE_S, PAWL, SOURCE, Server, check,  # noqa: E402
                     fresh_sqlite, run, start)

FOLDER = tempfile.mkdtemp()
atexit.register(subprocess.run, ["rm", "-rf", FOLDER], check=False)


def block(page, language):
    """The first program of a page in a language."""
    with open(f"{SOURCE}/{page}", encoding="utf-8") as file:
        found = re.search(rf"^```{language}\n(.*?)^```$", file.read(), re.M | re.S)
    check(found, page, "has no program in", language)
    return found.group(1)


def write(name, text):
    path = os.path.join(FOLDER, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def compiled(name, text):
    source, binary = write(name + ".c", text), os.path.join(FOLDER, name)
    subprocess.run(["cc", "-std=c17", "-D_DEFAULT_SOURCE", "-Wall", "-Werror", "-o", binary, source,
                    f"-I{SOURCE}/include", f"-L{BUILD}", "-lpawl", f"-Wl,-rpath,{BUILD}"],
                   check=True, timeout=300)
    return binary


def pawl(*words):
    done = subprocess.run([PAWL, *words], cwd=FOLDER, capture_output=True, text=True,
                          timeout=PATIENCE_S, check=True)
    return done.stdout


def said(command, **how):
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=PATIENCE_S,
                          check=False, **how)
    check(done.returncode == 0, command, done.stderr)
    return done.stdout


def the_python_of_the_readme_charges_once():
    server = Server(fresh_sqlite())
    path = write("shop.py", block("README.md", "python"))
    environment = {**os.environ, "PYTHONPATH": f"{SOURCE}/sdk/python:{FOLDER}",
                   "PAWL_STORE": server.url}
    worker = start(sys.executable, "-m", "pawl.cli", "shop:app", env=environment)
    atexit.register(worker.kill)
    for _ in range(2):  # the key makes the second submit the same job
        check(said([sys.executable, path], env=environment) == "{'receipt': 17}\n", "no receipt")
    jobs = server.call("GET", "/v1/jobs")[1]["jobs"]
    check(len(jobs) == 1 and jobs[0]["status"] == "completed", jobs)
    worker.terminate()
    worker.wait(PATIENCE_S)
    server.end()


# What README.md leaves out: the effect of the example that it names, a charge, and main.
CHARGE = """
static char *charge(const char *order, const char *idempotency_key)
{
    printf("charging %s, key %.8s\\n", order, idempotency_key);
    return pawl_copy("{\\"receipt\\": 17}");
}
"""
MAIN = """
int main(void)
{
    struct pawl *pawl;
    struct pawl_worker *worker;
    struct pawl_error error;
    struct pawl_options create = {.create = 1};
    static const char *const kinds[] = {"order"};
    struct pawl_worker_options options = {
        .kinds = kinds, .kind_count = 1, .drain = 1, .handler = order};
    if (pawl_open("sqlite:readme.db", &create, &pawl, &error) != PAWL_OK ||
        pawl_worker_start(pawl, &options, &worker, &error) != PAWL_OK ||
        pawl_worker_join(worker, NULL, &error) != PAWL_OK)
        return 1;
    pawl_close(pawl);
    return 0;
}
"""


def the_c_of_the_readme_charges():
    with open(f"{SOURCE}/examples/agent.c", encoding="utf-8") as file:
        agent = file.read()
    begin = agent.index("typedef char *(*tool)")
    effect = agent.index("static char *effect(")
    end = agent.index("\n}\n", effect) + 3
    program = ("#include <pawl.h>\n#include <stdio.h>\n" + agent[begin:agent.index(";", begin) + 1]
               + CHARGE + agent[effect:end] + block("README.md", "c") + MAIN)
    binary = compiled("order", program)
    job = pawl("submit", "order", "--payload", '{"cents": 250}',
               "--store", "sqlite:readme.db").strip()
    check(said([binary]).count("charging") == 1, "it was not charged once")
    shown = pawl("show", job, "--json", "--store", "sqlite:readme.db")
    check('"status":"completed"' in shown and '"receipt": 17' in shown, shown)


def the_c_of_the_tutorial_greets():
    binary = compiled("hello", block("docs/tutorials/first-job.md", "c"))
    job = pawl("submit", "hello", "--payload", '{"name": "Ada"}').strip()
    check(said([binary]) == "hello Ada, attempt 1\n", "it has not greeted")
    check('"greeted": true' in pawl("show", job, "--json"), job)


def the_plan_of_the_reference_is_valid():
    path = write("plan.yaml", block("docs/reference/plan-format.md", "yaml"))
    check("a plan of 3 steps" in pawl("plan", "check", path), path)


run(the_python_of_the_readme_charges_once, the_c_of_the_readme_charges,
    the_c_of_the_tutorial_greets, the_plan_of_the_reference_is_valid)
