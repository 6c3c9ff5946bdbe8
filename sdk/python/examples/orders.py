"""An order pipeline: reserve the goods, charge the card, ship; and undo when the card is declined.

    pawl-worker orders:app
    python3 orders.py 7 4200

The warehouse, the bank and the carrier are lines in a file (ORDERS_LOG): what has happened in the
world.
"""
from __future__ import annotations

import dataclasses
import os
import sys
from decimal import Decimal

from pawl import Context, EffectFailed, Pawl, idempotency_key

app = Pawl()


@dataclasses.dataclass
class Order:
    id: int
    amount: Decimal
    items: list[str]


@dataclasses.dataclass
class Outcome:
    shipped: bool
    tracking: str | None = None
    reason: str | None = None


class CardDeclined(Exception):
    """The bank says no. It will say no again."""


def happened(what: str) -> None:
    with open(os.environ.get("ORDERS_LOG", "orders.log"), "a", encoding="utf-8") as log:
        log.write(f"{what}\n")


async def reserve(order: Order, item: str) -> str:
    happened(f"reserved {item}")
    return f"{order.id}/{item}"


async def release(reservation: str) -> None:
    happened(f"released {reservation}")


async def charge(order: Order) -> str:
    if order.amount > 1000:
        raise CardDeclined(f"{order.amount} is over the limit")
    happened(f"charged {order.amount}")
    return idempotency_key()


def ship(order: Order) -> str:
    happened(f"shipped {order.id}")
    return f"track-{order.id}"


@app.job("order", max_attempts=10, retry={"initial_ms": 50}, in_doubt="ask")
async def fulfil(ctx: Context, order: Order) -> Outcome:
    reservations = await ctx.gather(*(
        ctx.effect(f"reserve {item}", reserve, order, item, in_doubt="retry")
        for item in order.items))
    try:
        await ctx.effect("charge", charge, order, record=(CardDeclined,))
    except EffectFailed as declined:
        for number, reservation in enumerate(reservations):
            await ctx.effect(f"release {number}", release, reservation, in_doubt="retry")
        return Outcome(shipped=False, reason=declined.error["message"])
    await ctx.progress({"charged": True})
    await ctx.wait("packed")
    return Outcome(shipped=True, tracking=await ctx.effect("ship", ship, order))


def main(id: str, amount: str) -> None:
    order = Order(int(id), Decimal(amount), ["chair", "table"])
    handle = app.sync.submit(fulfil, order, key=f"order-{id}")
    handle.signal("packed", signal_id="warehouse")
    print(handle.result(timeout=60))


if __name__ == "__main__":
    main(*sys.argv[1:])
