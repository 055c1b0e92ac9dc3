# Ends a server once nobody uses it any more, however its users ended.
# $1 folder of the server, $2 lock of its users, $3 lock of whoever starts or ends it, $4 seconds to wait for the next user
exec 7<"$2" 8<"$3" 9>"$1/keeper"
flock --nonblock 9 || exit 0
while :; do
    # To be had only when no user holds it.
    flock 7 || exit 1
    flock --unlock 7
    sleep "$4"
    flock 8 || exit 1
    flock --nonblock 7 && break
    flock --unlock 8
done
pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null)
# The number may have gone to another process meanwhile; the server works in its data folder.
is_ours() { [ -n "$pid" ] && [ "$(readlink "/proc/$pid/cwd")" = "$1/data" ]; }
tries=0
# A frozen server hears nothing.
for process in /proc/[0-9]*; do
    [ "$(readlink "$process/cwd" 2>/dev/null)" = "$1/data" ] && kill -CONT "${process#/proc/}"
done
is_ours "$1" && kill -QUIT "$pid"
while is_ours "$1"; do
    tries=$((tries + 1))
    [ "$tries" -gt 50 ] && kill -KILL "$pid"
    sleep 0.1
done
rm -rf "$1"
