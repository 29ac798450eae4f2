"""A Telegram bot that sells pictures made by KIE.ai: paid once, made once, delivered once, or refunded."""
