-- What waits in a channel: a stop clears it, and waits for the one that is on its way.
CREATE INDEX commands_waiting_of_channel ON commands (node, channel) WHERE status IN ('QUEUED', 'SEND_FAILED');
