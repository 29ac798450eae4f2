"""What the bot says, in Russian and in English. No format string here comes from outside."""

from typing import Any

TEXTS: dict[str, dict[str, str]] = {
    "menu": {
        "en": "🎨 I make pictures from words.\nBalance: {balance}\n\nPress a button, or send /image and a description.",
        "ru": "🎨 Я рисую картинки по описанию.\nБаланс: {balance}\n\nНажмите кнопку или отправьте /image и описание.",
    },
    "help": {
        "en": "/image TEXT – a picture at once\n/new – choose model and format\n/balance – your money\n"
        "/status – orders under way\n/history – your last orders\n/topup – add money\n/language – English or Russian",
        "ru": "/image ТЕКСТ – картинка сразу\n/new – выбрать модель и формат\n/balance – ваш баланс\n"
        "/status – заказы в работе\n/history – последние заказы\n/topup – пополнить\n/language – русский или английский",
    },
    "choose_model": {"en": "Choose a model:", "ru": "Выберите модель:"},
    "choose_ratio": {"en": "Model {model}. Choose the format:", "ru": "Модель {model}. Выберите формат:"},
    "write_prompt": {
        "en": "Format {ratio}. Now describe the picture in one message, up to {longest} characters.",
        "ru": "Формат {ratio}. Теперь опишите картинку одним сообщением, до {longest} знаков.",
    },
    "too_long": {
        "en": "That has {length} characters. Please use at most {longest}.",
        "ru": "Здесь {length} знаков. Пожалуйста, не больше {longest}.",
    },
    "model_gone": {
        "en": "The model {model} is not offered any more, so I have dropped that draft.",
        "ru": "Модель {model} больше не предлагается, поэтому черновик удалён.",
    },
    "went_wrong": {
        "en": "⚠️ Something went wrong with your last message. Nothing was paid for it. Please try again: /start",
        "ru": "⚠️ С вашим последним сообщением что-то пошло не так. За него ничего не списано. Попробуйте ещё раз: /start",
    },
    "no_prompt": {
        "en": "Say what you want to see: /image a lighthouse at night",
        "ru": "Напишите, что нарисовать: /image маяк ночью",
    },
    "confirm": {
        "en": "“{prompt}”\n{model}, {ratio}\nPrice: {price} · balance: {balance}\n\nShall I?",
        "ru": "«{prompt}»\n{model}, {ratio}\nЦена: {price} · баланс: {balance}\n\nРисуем?",
    },
    "not_enough": {
        "en": "It costs {price}, and you have {balance}. Top up first, then press “Make it” again.",
        "ru": "Цена {price}, а на балансе {balance}. Пополните баланс и нажмите «Нарисовать» ещё раз.",
    },
    "accepted": {
        "en": "⏳ Order {job_id} is paid and waits for its turn. {price} are held.",
        "ru": "⏳ Заказ {job_id} оплачен и ждёт очереди. Удержано {price}.",
    },
    "generating": {
        "en": "🖌 Order {job_id} is being drawn.",
        "ru": "🖌 Заказ {job_id} рисуется.",
    },
    "delivered": {"en": "✅ Order {job_id} is delivered.", "ru": "✅ Заказ {job_id} доставлен."},
    "gone": {"en": "This order is not open any more.", "ru": "Этот заказ больше не открыт."},
    "cancelled": {"en": "Cancelled. Nothing was paid.", "ru": "Отменено. Ничего не списано."},
    "failed": {
        "en": "❌ Order {job_id} could not be made: {why}\n{price} are back on your balance. You can order it again.",
        "ru": "❌ Заказ {job_id} не получился: {why}\n{price} вернулись на баланс. Можно заказать ещё раз.",
    },
    "not_made": {
        "en": "❌ Order {job_id} could not be made: the picture service is not available at the moment.\n"
        "{price} are back on your balance. Please try again later.",
        "ru": "❌ Заказ {job_id} не получился: сервис картинок сейчас недоступен.\n"
        "{price} вернулись на баланс. Попробуйте позже.",
    },
    "expired": {
        "en": "❌ The picture of order {job_id} is not to be had any more. {price} are back on your balance.",
        "ru": "❌ Картинка заказа {job_id} больше недоступна. {price} вернулись на баланс.",
    },
    "undelivered": {
        "en": "❌ I could not send you the picture of order {job_id} in time. {price} are back on your balance.",
        "ru": "❌ Не удалось вовремя отправить картинку заказа {job_id}. {price} вернулись на баланс.",
    },
    "unanswered": {
        "en": "↩️ I still do not know whether order {job_id} has reached you, so {price} are back on your balance.",
        "ru": "↩️ Я так и не знаю, дошёл ли заказ {job_id}, поэтому {price} вернулись на баланс.",
    },
    "ended": {"en": "Order {job_id}: {status}.", "ru": "Заказ {job_id}: {status}."},
    "alert_kie_401": {
        "en": "⚠️ KIE refuses our key (401): {why}\nEvery order fails and is refunded until KIE_API_KEY is right.",
        "ru": "⚠️ KIE не принимает ключ (401): {why}\nВсе заказы отменяются с возвратом, пока не исправлен KIE_API_KEY.",
    },
    "alert_kie_402": {
        "en": "⚠️ The credits at KIE are used up (402): {why}\nEvery order fails and is refunded until you top up there.",
        "ru": "⚠️ На счету KIE кончились кредиты (402): {why}\nВсе заказы отменяются с возвратом, пока он не пополнен.",
    },
    "alert_kie_429": {
        "en": "⚠️ KIE says that we ask too often (429): {why}\nOrders wait. Lower KIE_CREATIONS and KIE_QUERIES.",
        "ru": "⚠️ KIE: слишком много запросов (429): {why}\nЗаказы ждут. Уменьшите KIE_CREATIONS и KIE_QUERIES.",
    },
    "alert_delivery": {
        "en": "⚠️ Pictures cannot be delivered. Order {job_id} was given up and refunded: {why}",
        "ru": "⚠️ Картинки не доставляются. Заказ {job_id} закрыт, деньги возвращены: {why}",
    },
    "uncertain": {
        "en": "❓ I do not know whether the picture of order {job_id} has reached you. Is it here?",
        "ru": "❓ Я не знаю, дошла ли до вас картинка заказа {job_id}. Она пришла?",
    },
    "resolved": {"en": "Thank you, order {job_id} is settled.", "ru": "Спасибо, заказ {job_id} закрыт."},
    "sent_again": {"en": "I am sending order {job_id} again.", "ru": "Отправляю заказ {job_id} ещё раз."},
    "refunded": {
        "en": "↩️ Order {job_id} was refunded: {price} are back on your balance.",
        "ru": "↩️ Возврат по заказу {job_id}: {price} снова на балансе.",
    },
    "balance": {
        "en": "Balance: {balance}\nHeld for orders under way: {held}\n\n{entries}",
        "ru": "Баланс: {balance}\nУдержано за заказы в работе: {held}\n\n{entries}",
    },
    "status": {"en": "Orders under way:\n{orders}", "ru": "Заказы в работе:\n{orders}"},
    "history": {"en": "Your last orders:\n{orders}", "ru": "Последние заказы:\n{orders}"},
    "no_orders": {"en": "None.", "ru": "Нет."},
    "topup": {"en": "How much do you want to add?", "ru": "На сколько пополнить?"},
    "topup_requested": {
        "en": "Request {topup_id} for {amount} is with the admin. You will hear from me.",
        "ru": "Заявка {topup_id} на {amount} у администратора. Я сообщу.",
    },
    "topup_asked": {
        "en": "💳 User {user} asks for {amount}, request {topup_id}.",
        "ru": "💳 Пользователь {user} просит {amount}, заявка {topup_id}.",
    },
    "topup_approved": {"en": "✅ {amount} were added.", "ru": "✅ Зачислено {amount}."},
    "topup_rejected": {
        "en": "Your top-up of {amount} was declined.",
        "ru": "Пополнение на {amount} отклонено.",
    },
    "topup_ended": {"en": "Request {topup_id}: {outcome}.", "ru": "Заявка {topup_id}: {outcome}."},
    "language": {"en": "Choose a language:", "ru": "Выберите язык:"},
    "unknown": {
        "en": "I do not understand that. /start shows what I can do.",
        "ru": "Не понимаю. /start покажет, что я умею.",
    },
    "button_new": {"en": "🎨 New picture", "ru": "🎨 Новая картинка"},
    "button_balance": {"en": "💰 Balance", "ru": "💰 Баланс"},
    "button_status": {"en": "⏳ Status", "ru": "⏳ Статус"},
    "button_history": {"en": "🗂 History", "ru": "🗂 История"},
    "button_topup": {"en": "➕ Top up", "ru": "➕ Пополнить"},
    "button_language": {"en": "🌐 Русский", "ru": "🌐 English"},
    "button_make": {"en": "✅ Make it", "ru": "✅ Нарисовать"},
    "button_cancel": {"en": "✖️ Cancel", "ru": "✖️ Отмена"},
    "button_here": {"en": "✅ It is here", "ru": "✅ Пришла"},
    "button_not_here": {"en": "🔁 No, send it", "ru": "🔁 Нет, пришлите"},
    "button_approve": {"en": "✅ Approve", "ru": "✅ Одобрить"},
    "button_reject": {"en": "✖️ Reject", "ru": "✖️ Отклонить"},
}

STATUSES: dict[str, dict[str, str]] = {
    "queued": {"en": "in the queue", "ru": "в очереди"},
    "creating": {"en": "in the queue", "ru": "в очереди"},
    "create_unknown": {"en": "waiting for the painter's word", "ru": "ждём ответа от художника"},
    "generating": {"en": "being drawn", "ru": "рисуется"},
    "ready": {"en": "on its way to you", "ru": "отправляется"},
    "delivered": {"en": "delivered", "ru": "доставлен"},
    "uncertain": {"en": "sent, but did it arrive?", "ru": "отправлен, но дошёл ли?"},
    "failed": {"en": "failed, money back", "ru": "не получился, деньги возвращены"},
    "blocked": {"en": "not deliverable, money back", "ru": "не доставлен, деньги возвращены"},
    "expired": {"en": "expired, money back", "ru": "устарел, деньги возвращены"},
    "refunded": {"en": "refunded", "ru": "возвращён"},
}
KINDS: dict[str, dict[str, str]] = {
    "welcome": {"en": "welcome", "ru": "подарок"},
    "topup": {"en": "top-up", "ru": "пополнение"},
    "grant": {"en": "from the admin", "ru": "от администратора"},
    "hold": {"en": "held", "ru": "удержано"},
    "charge": {"en": "paid", "ru": "оплачено"},
    "release": {"en": "given back", "ru": "возвращено"},
    "refund": {"en": "refund", "ru": "возврат"},
}


def say(language: str, name: str, **values: Any) -> str:
    """A text in this language; values are put in once, whatever they contain."""
    text = TEXTS[name][language if language in TEXTS[name] else "en"]
    return text.format(**{key: str(value) for key, value in values.items()})[:4096]


def word(words: dict[str, dict[str, str]], name: str, language: str) -> str:
    """A status or a kind of entry, in this language."""
    return words.get(name, {}).get(language, name)


def caption(job: Any) -> str:
    """Under a picture: what it was to be, and its number."""
    return f"{job['prompt'][:900]}\n#{job['job_id']}"
