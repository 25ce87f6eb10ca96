import signal
import threading

from profs_tf.utils.signals import handling


def test_a_handler_is_in_force_within(capsys):
    before = signal.getsignal(signal.SIGTERM)
    seen = []
    with handling((signal.SIGTERM,), lambda number, frame: seen.append(number)):
        signal.raise_signal(signal.SIGTERM)
    assert seen == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) == before


def test_another_thread_leaves_handlers_alone():
    before = signal.getsignal(signal.SIGTERM)
    during = []

    def work():
        with handling((signal.SIGTERM,), lambda number, frame: None):
            during.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert during == [before]
