from ddptui.cli import start

start()
