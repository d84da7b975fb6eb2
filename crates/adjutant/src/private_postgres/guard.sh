# Runs one program and ends it when the parent is gone, however the parent went.
#
# Standard input is a pipe that only the parent can write to, and it never does: its end is the parent's end (closed on
# purpose, or by the kernel after a kill -9).
#
# arguments: SIGNAL INPUT REMOVE WHEN PROGRAM ARGUMENTS...
#   SIGNAL  what ends the program
#   INPUT   its standard input
#   REMOVE  a directory to remove after it, or nothing
#   WHEN    "always", or "failed": only when the program did not succeed
signal=$1 input=$2 remove=$3 when=$4
shift 4

# A service that is stopped may signal all of its processes at once: the guard has to outlive the program.
trap '' HUP INT TERM

exec 3<&0
"$@" <"$input" 3<&- &
program=$!

# The signal is repeated because a program that has not installed its handlers yet was started with signals ignored, and
# would miss it.
{
    read -r _ <&3
    while kill "-$signal" "$program"; do sleep 1; done
} >/dev/null 2>&1 &
watcher=$!

wait "$program"
status=$?
kill -9 "$watcher"
wait "$watcher" 2>/dev/null

if [ -n "$remove" ] && { [ "$when" = always ] || [ "$status" -ne 0 ]; }; then
    rm -rf "$remove"
fi
exit "$status"
