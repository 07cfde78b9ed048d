"""What all tests share."""

import signal

# Started in the background (CI, nohup), pytest would hand "Ctrl-C is ignored" down to every command it tests.
signal.signal(signal.SIGINT, signal.default_int_handler)
