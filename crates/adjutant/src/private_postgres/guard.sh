# Runs one program and stops it when the parent process has ended, for whatever reason.
#
# Standard input is a pipe that only the parent has open for writing, and it never writes. End of
# file means that the parent has closed it or has ended, even by kill -9.
#
# arguments: SIGNAL INPUT REMOVE WHEN PROGRAM ARGUMENTS...
#   SIGNAL  the signal that stops the program
#   INPUT   the file for its standard input
#   REMOVE  a directory to remove when the program has ended, or an empty string
#   WHEN    when to remove it: "always", or "failed" if the program did not succeed
signal=$1 input=$2 remove=$3 when=$4
shift 4

# A service manager may signal all processes of a service, and the guard must outlive the program.
trap '' HUP INT TERM

exec 3<&0
"$@" <"$input" 3<&- &
program=$!

# The signal is repeated: the program inherits ignored signals and misses one that arrives before it
# has installed its handlers.
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
