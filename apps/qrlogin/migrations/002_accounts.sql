-- Which Telegram account may scan, and when the first try of a row of tries was started.
ALTER TABLE "tg:qr:session" ADD COLUMN expected_account text;
ALTER TABLE "tg:qr:session" ADD COLUMN chain_unix text;
