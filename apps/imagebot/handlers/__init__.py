"""What the bot does with an update. Handlers never block, and reach the database through `DatabaseService` only."""

from aiogram import Dispatcher

from imagebot.handlers import admin, menu, orders, topups
from imagebot.handlers.context import Context
from imagebot.handlers.middleware import AnswerAtOnce, KnownUser


def dispatcher(context: Context) -> Dispatcher:
    """All routers; what no handler understands ends in the menu."""
    made = Dispatcher(disable_fsm=True, name="imagebot")
    made["context"] = context
    made.callback_query.outer_middleware(AnswerAtOnce())
    for observer in (made.message, made.callback_query):
        observer.middleware(KnownUser(context))
    made.include_routers(admin.router(context), menu.router(), topups.router(), orders.router())
    return made
