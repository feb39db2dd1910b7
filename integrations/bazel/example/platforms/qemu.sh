#!/bin/sh
# Runs a program for the board in QEMU, and everything else here: the budget test is a script for this machine.
program=$1
shift
if [ "$(head -c 4 "$program" | tail -c 3)" != ELF ]; then
    exec "$program" "$@"
fi
exec qemu-system-arm -M mps2-an385 -nographic -semihosting -kernel "$program"
