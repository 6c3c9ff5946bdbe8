#!/usr/bin/env python3
"""The dashboard as a server gives it out: its files, what their headers say, signing in with a
browser, and what pages of others cannot do.

usage: test_dashboard.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
import gzip
import http.client
import json
import re
import ssl
import subprocess

from trouble import PATIENCE_S, SOURCE, Server, check, fresh_sqlite, place, run, until

ADMIN = 'an admin token; of "more" than 16 bytes, ü'
BYTES_MAX = 200_000  # of all that a browser loads, compressed

Reply = type("Reply", (), {})


class Browser:
    """Sends what it is told to, and keeps cookies as a browser does."""

    def __init__(self, server, connection=None):
        self.port = server.port
        self.connection = connection or http.client.HTTPConnection(
            "127.0.0.1", server.port, timeout=PATIENCE_S)
        self.cookie, self.csrf = None, None

    def ask(self, method, path, body=None, **headers):
        """Names of headers have _ for -."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookie is not None:
            sent["Cookie"] = f"other=1; {self.cookie}; more=2"
        if body is not None:
            sent["Content-Type"] = "application/json"
            body = json.dumps(body)
        self.connection.request(method, path, body, sent)
        got = self.connection.getresponse()
        reply = Reply()
        reply.status, reply.headers, reply.body = got.status, got.headers, got.read()
        reply.json = json.loads(reply.body) if reply.body[:1] == b"{" else None
        for line in got.headers.get_all("Set-Cookie") or []:
            name_and_value, *reply.attributes = line.split("; ")
            gone = "Max-Age=0" in reply.attributes
            self.cookie = None if gone else name_and_value
        return reply

    def sign_in(self, token):
        reply = self.ask("POST", "/session", Authorization=b"Bearer " + token.encode())
        if reply.status == 200:
            self.csrf = reply.json["csrf"]
        return reply

    def submit(self, **headers):
        return self.ask("POST", "/v1/jobs", {"kind": "k"}, **headers).status


def closed(store="memory:", *more, port=0):
    """A server that nobody gets into without a token."""
    return Server(store, port, "--require-tokens", *more, PAWL_TOKEN=ADMIN)


def create_token(server, *scopes, **more):
    admin = Browser(server)
    admin.sign_in(ADMIN)
    made = admin.ask("POST", "/v1/tokens", {"name": "t", "scopes": scopes, **more},
                     X_Pawl_CSRF=admin.csrf)
    check(made.status == 201, made.body)
    return made.json


# ---- files --------------------------------------------------------------------------------------


def check_page_headers(reply, path):
    policy = dict(part.strip().split(" ", 1)
                  for part in reply.headers["Content-Security-Policy"].split(";"))
    check(policy["default-src"] == "'none'" and policy["script-src"] == "'self'" and
          policy["style-src"] == "'self'" and policy["base-uri"] == "'none'" and
          policy["form-action"] == "'self'" and policy["frame-ancestors"] == "'none'",
          path, policy)
    check("unsafe" not in str(policy), path, policy)
    check(reply.headers["X-Content-Type-Options"] == "nosniff", path)
    check(reply.headers["Referrer-Policy"] == "no-referrer", path)
    check(reply.headers["Cross-Origin-Resource-Policy"] == "same-origin", path)


def every_file_of_the_page_is_there_and_small():
    server = Server("memory:")
    browser = Browser(server)
    page = browser.ask("GET", "/")
    check(page.status == 200 and page.headers["Content-Type"] == "text/html; charset=utf-8",
          page.status)
    check_page_headers(page, "/")
    check(page.headers["Cache-Control"] == "no-cache", page.headers)
    text = page.body.decode()
    check(not re.search(r"<script(?![^>]*\bsrc=)|<style|\bon[a-z]+=|\bstyle=", text),
          "something is inline:", text)
    check(not re.search(r"(src|href)=\"?(https?:)?//", text), "another server is named:", text)
    types = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8",
             "svg": "image/svg+xml"}
    files = set(re.findall(r"/assets/[^\"' >]+", text))
    check(any(name.endswith(".js") for name in files), files)
    packed = 0
    left = list(files)
    while left:
        path = left.pop()
        plain = browser.ask("GET", path)
        check(plain.status == 200 and plain.headers["Content-Encoding"] is None, path)
        check(plain.headers["Content-Type"] == types[path.rsplit(".", 1)[1]], path)
        check(plain.headers["Cache-Control"] == "public, max-age=31536000, immutable", path)
        check_page_headers(plain, path)
        small = browser.ask("GET", path, Accept_Encoding="br, gzip;q=0.8")
        check(small.headers["Content-Encoding"] == "gzip" and
              gzip.decompress(small.body) == plain.body, path, "is another when it is compressed")
        check(small.headers["Vary"] == "Accept-Encoding", path)
        packed += len(small.body)
        for name in re.findall(r"\./([\w.-]+-[A-Z0-9]{8}\.(?:js|css))", plain.body.decode()):
            if f"/assets/{name}" not in files:
                files.add(f"/assets/{name}")
                left.append(f"/assets/{name}")
    check(packed < BYTES_MAX, "the page has", packed, "bytes")
    server.end()
    return f"{len(files)} files, {packed} bytes compressed"


def whoever_has_a_file_is_not_sent_it_again():
    server = Server("memory:")
    browser = Browser(server)
    for path in ("/", re.search(r"/assets/[^\"' >]+", browser.ask("GET", "/").body.decode())[0]):
        tag = browser.ask("GET", path).headers["ETag"]
        again = browser.ask("GET", path, If_None_Match=tag)
        check(again.status == 304 and again.body == b"", path, again.status)
        check(browser.ask("GET", path, If_None_Match='"another"').status == 200, path)
        head = browser.ask("HEAD", path)
        check(head.status == 200 and head.body == b"" and head.headers["ETag"] == tag, path)
    refused = browser.ask("GET", "/", Accept_Encoding="gzip;q=0, identity")
    check(refused.headers["Content-Encoding"] is None, "gzip was refused, and sent")
    for path in ("/assets/nothing.js", "/assets/index.html", "/assets/..%2Findex.html"):
        missing = browser.ask("GET", path)
        check(missing.status == 404 and missing.headers["Cache-Control"] == "no-store", path)
    server.end()


# ---- signing in ---------------------------------------------------------------------------------


def a_browser_signs_in_and_out():
    server = closed()
    browser = Browser(server)
    check(browser.ask("GET", "/").status == 200, "nobody can see where to sign in")
    nobody = browser.ask("GET", "/session")
    check(nobody.status == 200 and nobody.json == {
        "auth": True, "signed_in": False, "name": None, "scopes": [], "queues": None,
        "csrf": None}, nobody.body)
    check(browser.ask("GET", "/v1/stats").status == 401, "the store is open")
    check(browser.sign_in("pawl_" + 43 * "x").status == 401 and browser.cookie is None, "a guess")
    entered = browser.sign_in(ADMIN)
    check(entered.status == 200 and entered.json["name"] == "PAWL_TOKEN" and
          "admin" in entered.json["scopes"], entered.body)
    check(set(entered.attributes) == {"Path=/", "HttpOnly", "SameSite=Strict", "Max-Age=604800"},
          entered.attributes)
    check(ADMIN not in entered.body.decode(), "the page can read the token")
    check(browser.ask("GET", "/session").json == entered.json, "the session is another")
    check(browser.ask("GET", "/v1/stats").status == 200, "the session opens nothing")
    check(browser.submit(X_Pawl_CSRF=browser.csrf) == 201, "nothing can be done")
    left = browser.ask("DELETE", "/session")
    check(left.status == 204 and browser.cookie is None, left.status, left.headers)
    check(browser.ask("GET", "/session").json["signed_in"] is False, "it is still signed in")
    check(browser.ask("POST", "/session", {"token": ADMIN}).status in (400, 401), "a body")
    server.end()


def a_session_has_the_scopes_and_queues_of_its_token():
    server = closed()
    made = create_token(server, "read", queues=["own"])
    browser = Browser(server)
    entered = browser.sign_in(made["token"])
    check(entered.json["name"] == "t" and entered.json["scopes"] == ["read"] and
          entered.json["queues"] == ["own"], entered.body)
    check(browser.ask("GET", "/v1/jobs?queue=own").status == 200, "it cannot read")
    check(browser.submit(X_Pawl_CSRF=browser.csrf) == 403, "it can submit")
    server.end()


def a_session_outlives_the_server():
    store = fresh_sqlite()
    server = closed(store)
    browsers = [Browser(server), Browser(server)]
    browsers[0].sign_in(ADMIN)
    browsers[1].sign_in(create_token(server, "read", "submit")["token"])
    server.end()
    server = closed(store)
    for old in browsers:
        browser = Browser(server)
        browser.cookie, browser.csrf = old.cookie, old.csrf
        check(browser.ask("GET", "/session").json["csrf"] == old.csrf, "it must sign in again")
        check(browser.submit(X_Pawl_CSRF=browser.csrf) == 201, "it must sign in again")
    server.end()


def a_session_ends_with_its_token():
    server = closed()
    made = create_token(server, "read", "submit")
    short = create_token(server, "read", ttl_ms=1500)
    browser, brief, stream = Browser(server), Browser(server), Browser(server)
    brief.sign_in(short["token"])
    check(brief.ask("GET", "/v1/stats").status == 200, "it was never there")
    browser.sign_in(made["token"])
    stream.cookie = browser.cookie
    stream.connection.request("GET", "/v1/feed?after=now", headers={"Cookie": stream.cookie,
                                                                    "Accept": "text/event-stream"})
    live = stream.connection.getresponse()
    check(live.status == 200, "there is no stream with a cookie")
    check(browser.submit(X_Pawl_CSRF=browser.csrf) == 201, "it cannot submit")
    until("the event", lambda: b'"job_created"' in live.readline(), pause_s=0)
    admin = Browser(server)
    admin.sign_in(ADMIN)
    revoked = admin.ask("DELETE", f"/v1/tokens/{made['id']}", X_Pawl_CSRF=admin.csrf)
    check(revoked.status == 200, revoked.body)
    check(browser.ask("GET", "/v1/stats").status == 401, "a revoked token opens something")
    check(browser.ask("GET", "/session").json["signed_in"] is False, "it is still signed in")
    check(admin.submit(X_Pawl_CSRF=admin.csrf) == 201, "the admin cannot submit")
    for line in live:
        check(b"job_created" not in line, "the stream goes on")
    check(browser.ask("DELETE", "/session").status == 204, "it cannot sign out")
    until("the end of a token", lambda: brief.ask("GET", "/v1/stats").status == 401)
    server.end()


def guesses_are_slowed_down():
    server = closed()
    browser = Browser(server)
    statuses = [browser.sign_in("pawl_" + f"{n:043}").status for n in range(12)]
    check(statuses[0] == 401 and 429 in statuses, statuses)
    browser.cookie = "pawl_session=" + ("pawl_" + 43 * "y").encode().hex()
    check(browser.ask("GET", "/v1/stats").status == 429, "a cookie is a way round it")
    browser.cookie = None
    check(browser.sign_in(ADMIN).status == 200, "the right token must wait")
    server.end()


def over_tls_the_cookie_goes_nowhere_else():
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", f"{place}/key.pem",
         "-out", f"{place}/cert.pem"], capture_output=True, timeout=PATIENCE_S)
    check(made.returncode == 0, made.stderr)
    server = closed("memory:", "--certificate", f"{place}/cert.pem", "--key", f"{place}/key.pem")
    context = ssl.create_default_context(cafile=f"{place}/cert.pem")
    browser = Browser(server, http.client.HTTPSConnection("localhost", server.port,
                                                          timeout=PATIENCE_S, context=context))
    entered = browser.sign_in(ADMIN)
    check("Secure" in entered.attributes and browser.cookie.startswith("__Host-pawl_session="),
          entered.headers)
    check(browser.ask("GET", "/v1/stats").status == 200, "the session opens nothing")
    check(browser.submit(X_Pawl_CSRF=browser.csrf) == 201, "nothing can be done")
    browser.cookie = browser.cookie.replace("__Host-", "")
    check(browser.ask("GET", "/v1/stats").status == 401, "a cookie that any host may have set")
    server.end()


def behind_a_proxy_the_cookie_is_as_over_tls():
    server = closed()
    browser = Browser(server)
    reply = browser.ask("POST", "/session", Authorization=b"Bearer " + ADMIN.encode(),
                        X_Forwarded_Proto="https", X_Forwarded_Host="pawl.example")
    check("Secure" in reply.attributes and browser.cookie.startswith("__Host-"), reply.headers)
    check(browser.submit(X_Pawl_CSRF=reply.json["csrf"], X_Forwarded_Proto="https",
                         X_Forwarded_Host="pawl.example", Origin="https://pawl.example") == 201,
          "its own page may do nothing")
    server.end()


# ---- pages of others ----------------------------------------------------------------------------


def what_a_page_of_others_sends_with_the_cookie_is_refused():
    server = closed()
    browser = Browser(server)
    browser.sign_in(ADMIN)
    own, proof = f"http://127.0.0.1:{server.port}", browser.csrf
    other = create_token(server, "submit")
    stranger = Browser(server)
    stranger.sign_in(other["token"])
    for wrong in ({}, {"X_Pawl_CSRF": ""}, {"X_Pawl_CSRF": "0" * 64}, {"X_Pawl_CSRF": proof[:-1]},
                  {"X_Pawl_CSRF": proof + "0"}, {"X_Pawl_CSRF": stranger.csrf},
                  {"X_Pawl_CSRF": proof, "Origin": "http://evil.example"},
                  {"X_Pawl_CSRF": proof, "Origin": "null"},
                  {"X_Pawl_CSRF": proof, "Origin": own + "0"},
                  {"X_Pawl_CSRF": proof, "Sec_Fetch_Site": "cross-site"},
                  {"X_Pawl_CSRF": proof, "Sec_Fetch_Site": "same-site", "Origin": own},
                  {"X_Pawl_CSRF": proof, "Sec_Fetch_Site": "cross-site",
                   "Sec_Fetch_Mode": "navigate"}):
        check(browser.submit(**wrong) == 403, wrong, "is let in")
    for right in ({}, {"Origin": own}, {"Origin": own, "Sec_Fetch_Site": "same-origin"},
                  {"Sec_Fetch_Site": "none"}):
        check(browser.submit(X_Pawl_CSRF=proof, **right) == 201, right, "is refused")
    jobs = browser.ask("GET", "/v1/jobs")
    check(len(jobs.json["jobs"]) == 4, "something was done:", jobs.body)
    for method, path in (("PUT", "/v1/kinds/k"), ("DELETE", f"/v1/tokens/{other['id']}")):
        body = {"timeout_ms": 1000} if method == "PUT" else None
        check(browser.ask(method, path, body).status == 403, method, "needs no proof")
        check(browser.ask(method, path, body, X_Pawl_CSRF=proof).status == 200, method)
    for path in ("/v1/jobs", "/v1/feed"):
        check(browser.ask("GET", path, Sec_Fetch_Site="cross-site",
                          Sec_Fetch_Mode="no-cors").status == 403, path, "can be embedded")
    check(browser.ask("DELETE", "/session", Origin="http://evil.example").status == 403,
          "others can sign it out")
    # Whoever has the token itself needs no proof, as ever.
    browser.cookie = None
    check(browser.submit(Authorization=f"Bearer {other['token']}") == 401, "it was revoked")
    check(browser.submit(Authorization=b"Bearer " + ADMIN.encode()) == 201, "a bearer is refused")
    server.end()


def without_tokens_pages_of_others_get_nothing():
    server = Server("memory:")
    browser = Browser(server)
    own = f"http://127.0.0.1:{server.port}"
    free = browser.ask("GET", "/session").json
    check(free["auth"] is False and free["signed_in"] is True and free["csrf"] is None, free)
    browser.cookie = "pawl_session=00"
    check(browser.submit() == 201 and browser.submit(Origin=own) == 201, "its own page is refused")
    check(browser.submit(Origin=own, Sec_Fetch_Site="same-origin") == 201, "its own page")
    for wrong in ({"Host": "evil.example"}, {"Host": f"evil.example:{server.port}"},
                  {"Host": "localhost.evil.example"}, {"Origin": "http://evil.example"},
                  {"Origin": "null"}, {"Origin": "http://localhost:1"},
                  {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors"},
                  {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "cors"},
                  {"X_Forwarded_For": "192.0.2.1"}):
        for method, path, body in (("GET", "/", None), ("GET", "/session", None),
                                   ("POST", "/session", None), ("GET", "/v1/jobs", None),
                                   ("POST", "/v1/jobs", {"kind": "k"})):
            status = browser.ask(method, path, body, **wrong).status
            check(status == 403, wrong, method, path, status)
    followed = browser.ask("GET", "/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")
    check(followed.status == 200, "a link to the dashboard leads nowhere")
    # A form can send only these types, and no page of others may ask for more.
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        browser.connection.request("POST", "/v1/jobs", '{"kind":"k"}', {"Content-Type": kind})
        reply = browser.connection.getresponse()
        reply.read()
        check(reply.status == 415, kind, reply.status)
    asked = browser.ask("OPTIONS", "/v1/jobs", Access_Control_Request_Method="POST")
    check(asked.status == 405 and not any(
        name.lower().startswith("access-control") for name in asked.headers), asked.headers)
    check(len(browser.ask("GET", "/v1/jobs").json["jobs"]) == 3, "something was done")
    server.end()


def a_build_without_a_hash_in_a_name_is_refused():
    """scripts/build-web, on a page that is wrong."""
    wrong = f"{place}/web"
    subprocess.run(["mkdir", "-p", wrong], check=True)
    with open(f"{wrong}/build.mjs", "w", encoding="utf-8") as script:
        script.write("import {writeFileSync} from 'node:fs';\n"
                     "for (const name of ['index.html', process.env.NAME])\n"
                     "    writeFileSync(process.argv[2] + '/' + name, 'x');\n")
    for name in ("package.json", "package-lock.json"):
        with open(f"{wrong}/{name}", "w", encoding="utf-8") as file:
            json.dump({"name": "x", "version": "1.0.0", "lockfileVersion": 3, "packages": {}}, file)
    for name, good in (("app-ABCD1234.js", True), ("app.js", False), ("app-ABCD1234.exe", False)):
        done = subprocess.run(
            [f"{SOURCE}/scripts/build-web", wrong, f"{place}/work", f"{place}/out.c",
             f"{place}/out.d"], env={"NAME": name, "PATH": "/usr/local/bin:/usr/bin:/bin"},
            capture_output=True, text=True, timeout=PATIENCE_S)
        check((done.returncode == 0) == good, name, done.stderr)
        check(good or name in done.stderr, "it does not say why:", done.stderr)


run(every_file_of_the_page_is_there_and_small, whoever_has_a_file_is_not_sent_it_again,
    a_browser_signs_in_and_out, a_session_has_the_scopes_and_queues_of_its_token,
    a_session_outlives_the_server, a_session_ends_with_its_token, guesses_are_slowed_down,
    over_tls_the_cookie_goes_nowhere_else, behind_a_proxy_the_cookie_is_as_over_tls,
    what_a_page_of_others_sends_with_the_cookie_is_refused,
    without_tokens_pages_of_others_get_nothing, a_build_without_a_hash_in_a_name_is_refused)
