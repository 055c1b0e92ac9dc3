# The Debian package: install, start as its unit does, upgrade, remove, purge.
. /try/first_answer.sh

unit=/lib/systemd/system/hapax.service
settings=/etc/hapax/hapax.toml

# There is no systemd in here, so this starts the very command of the unit, as a user without rights, with the folder of its data.
start() {
    command=$(sed -n 's/^ExecStart=//p' "$unit")
    mkdir -p /var/lib/hapax
    chown 61184:61184 /var/lib/hapax
    chmod 0700 /var/lib/hapax
    cd /var/lib/hapax
    # shellcheck disable=SC2086
    setpriv --reuid=61184 --regid=61184 --clear-groups --no-new-privs --bounding-set=-all $command 2> /tmp/log &
    server=$!
    for _ in $(seq 100); do
        if hapax health --ready > /dev/null 2>&1; then
            return
        fi
        kill -0 "$server" || { cat /tmp/log >&2; exit 1; }
        sleep 0.1
    done
    cat /tmp/log >&2
    exit 1
}

stop() {
    kill -TERM "$server"
    wait "$server"
}

dpkg --install /packages/hapax_*.deb
hapax --version
first_answer hapax
for file in "$unit" "$settings" /usr/share/bash-completion/completions/hapax /usr/share/doc/hapax/copyright; do
    [ -s "$file" ]
done
dpkg-query --show --showformat='${Conffiles}' hapax | grep --quiet "$settings"

start
key=$(cat /var/lib/hapax/first-key)
curl --silent --show-error --fail-with-body http://127.0.0.1:7171/api/v1/workspaces --header "Authorization: Bearer $key" > /tmp/workspaces
[ -s /tmp/workspaces ]
stop

# An upgrade keeps what an administrator wrote, and the data.
echo 'drain = "5s"' >> "$settings"
cp "$settings" /tmp/settings
dpkg --force-confdef --force-confold --install /upgrade/hapax_later.deb
cmp "$settings" /tmp/settings
start
curl --silent --show-error --fail-with-body http://127.0.0.1:7171/api/v1/workspaces --header "Authorization: Bearer $key" > /tmp/again
cmp /tmp/workspaces /tmp/again
stop

dpkg --remove hapax
[ ! -e /usr/bin/hapax ] && [ ! -e "$unit" ] && [ -s "$settings" ] && [ -s /var/lib/hapax/hapax.db ]

dpkg --purge hapax 2> /tmp/said
[ ! -e /etc/hapax ]
# Records of what was paid stay until somebody removes them on purpose.
[ -s /var/lib/hapax/hapax.db ]
grep --quiet 'is kept' /tmp/said

# Where there is no data, nothing stays.
rm -r /var/lib/hapax
dpkg --install /packages/hapax_*.deb
dpkg --purge hapax
[ ! -e /etc/hapax ] && [ ! -e /var/lib/hapax ]
