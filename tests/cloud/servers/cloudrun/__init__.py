"""Google's Cloud Run Admin API v2, Cloud Storage and Cloud Logging, as far as runs need them: a contract server.

It refuses what the real APIs refuse, and runs the containers' commands as processes of this machine.
What could not be found in the documentation, and is a guess here:

- the status and reason of a cancellation of an execution that has ended (taken: 400 FAILED_PRECONDITION);
- whether deleting a job ends its running executions (the provider cancels and awaits them first);
- the text of the attempt's status when the task's timeout ends it, and whether its exit code is set
  then (taken: no exit code; the provider goes by the times);
- whether an execution is listed the moment its job is made (here it comes later, as the operation's
  nature suggests);
- that an execution has the labels of its job's template as it was then, and that a job keeps the name of the
  execution that it created last when that is deleted.
"""

from .server import CloudServer

__all__ = ["CloudServer"]
