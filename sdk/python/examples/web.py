"""A small web app (WSGI) that enqueues in its own PostgreSQL transaction: an order and the job that
confirms it are committed together, or neither is.

    export SHOP_DATABASE=postgres://…      the database that the Pawl server uses, too
    pawl-worker web:app
    python3 web.py 8000
    curl -d ada http://127.0.0.1:8000/

It needs psycopg2. Any WSGI server can run `web`.
"""
from __future__ import annotations

import os
import sys
import wsgiref.simple_server
from typing import Any, Callable, Iterable

import psycopg2

from pawl import Context, Pawl

app = Pawl()
TABLE = "CREATE TABLE IF NOT EXISTS orders (id serial PRIMARY KEY, customer text NOT NULL)"


def happened(what: str) -> None:
    with open(os.environ.get("WEB_LOG", "web.log"), "a", encoding="utf-8") as log:
        log.write(f"{what}\n")


def mail(customer: str, text: str) -> None:
    happened(f"mailed {customer}: {text}")


@app.job("order.confirm", max_attempts=10, retry={"initial_ms": 50})
async def confirm(ctx: Context, order: dict[str, Any]) -> str:
    await ctx.effect("thanks", mail, order["customer"], f"order {order['id']} is here",
                     in_doubt="retry")
    carrier: str = await ctx.wait("shipped")
    await ctx.effect("on the way", mail, order["customer"],
                     f"order {order['id']} comes by {carrier}", in_doubt="retry")
    return carrier


def connect() -> Any:
    return psycopg2.connect(os.environ["SHOP_DATABASE"])


def place_order(customer: str) -> str:
    """Gives the id of the job. An error rolls back both, order and job."""
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO orders (customer) VALUES (%s) RETURNING id", (customer,))
        (id,) = cursor.fetchone()
        handle = app.sync.submit_in(cursor, confirm, {"id": id, "customer": customer},
                                    key=f"order-{id}")
        if len(customer) > 20:
            raise ValueError("the name is too long")
    return handle.id


def web(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    size = int(environ.get("CONTENT_LENGTH") or 0)
    try:
        id = place_order(environ["wsgi.input"].read(size).decode())
    except ValueError as error:
        start_response("400 Bad Request", [("Content-Type", "text/plain")])
        return [str(error).encode()]
    start_response("201 Created", [("Content-Type", "text/plain")])
    return [id.encode()]


def main(port: int) -> None:
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute(TABLE)
    with wsgiref.simple_server.make_server("127.0.0.1", port, web) as server:
        print(server.server_port, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]))
