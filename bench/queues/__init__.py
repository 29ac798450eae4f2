"""No-op work from handing in to finished, items a second: ours beside hand-written SQL and beside the queues in use.

The rule, the same for every queue, ours included (`bench.queues.run` is the only clock):

- The worker has a process of its own, or as many as the queue starts by itself. Before the clock starts it has finished
  one item, so that it is awake and its connections are open.
- The clock starts when the measuring process hands in the first item, with the worker running, and stops when a function
  in Python has been called for every item and the store has no item left that is not finished.
- Every item is called exactly once, or the run fails: each call leaves a number in a file, and all are compared.
- *default* is what the manual's first page does: items handed in one by one, the worker started with no options. *best*
  is the best that we found within its documented settings: bulk, concurrency, prefetch; where the default turns out
  quicker in a run, that is its best. Never a weaker durability: PostgreSQL has fsync and synchronous_commit on, SQLite
  synchronous FULL, Valkey an append-only file.
- Every run has a fresh database, and is sized to take some seconds: in a short one a queue that polls would mostly be
  measured waiting for its next look.
"""
