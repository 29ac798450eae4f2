import sqlite3
from enum import StrEnum

from raceproof import Lifecycle, bind, move


class Status(StrEnum):
    NEW = "NEW"
    PAID = "PAID"
    CANCELLED = "CANCELLED"


class Order(Lifecycle[Status], table="orders", key="id"):
    pay = move(Status.NEW, to=Status.PAID)
    cancel = move(Status.NEW, to=Status.CANCELLED)


connection = sqlite3.connect(":memory:")
connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT)")
connection.execute("INSERT INTO orders VALUES (1, 'NEW')")
db = bind(connection)
for step in (Order.pay, Order.cancel):
    print(db.move(step, 1))
connection.close()
