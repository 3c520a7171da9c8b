# SPDX-License-Identifier: BSD-3-Clause
"""Futures that coroutines can await, and threads for calls that wait without handling signals."""
import concurrent.futures
import threading


class Future(concurrent.futures.Future):
    """concurrent.futures.Future that may be awaited, too: `rows = await table.pull_async(keys)`."""

    def __await__(self):
        import asyncio  # loaded already by whoever awaits
        return asyncio.wrap_future(self).__await__()


def in_background(function, *args):
    """A Future of function(*args), which a thread of its own calls."""
    future = Future()
    future.set_running_or_notify_cancel()

    def run():
        try:
            future.set_result(function(*args))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="starserver-call", daemon=True).start()
    return future


def interruptible(function, *args, discard=None):
    """Calls a function that waits without handling signals; Ctrl-C ends the waiting at once, and the call later: what it then
    returns
    is given to `discard`."""
    if threading.current_thread() is not threading.main_thread():
        return function(*args)
    future = in_background(function, *args)
    try:
        return future.result()
    except BaseException:
        if discard:
            future.add_done_callback(lambda done: None if done.exception() else discard(done.result()))
        raise
