"""The same callback and poller with `deliver_once`: no schedule sends the picture twice."""

# docs: handler
from raceproof import Delivery
from raceproof.deliveries import NotSent
from raceproof.testing.explorer import Connection, Effect, EffectRefused, World

picture = Delivery("picture", table="pictures", key="id", state="state", policy="hold")


async def send_picture(db: Connection, send: Effect) -> None:
    async with db.deliver_once(picture, "p1") as permit:
        if permit.won:
            try:
                await send("p1")
            except EffectRefused as error:  # the connection was refused: nothing left this process
                raise NotSent from error


# docs: scenario
def one_picture(world: World) -> None:
    world.table(picture)
    world.row(picture, "p1")
    send = world.effect("send")

    @world.process
    async def callback(db: Connection) -> None:
        await send_picture(db, send)

    @world.process
    async def poller(db: Connection) -> None:
        await send_picture(db, send)

    world.never_twice(send)
    world.sometimes("the picture is sent", lambda moment: len(moment.calls(send)) == 1)


# docs: run
if __name__ == "__main__":
    from sending_twice import show

    show("sending_once.py", "--deviations", "2", "--seconds", "60")
