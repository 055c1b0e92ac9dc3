# The Debian package on a machine that systemd has booted: its unit, as confined as it is, through a crash, an upgrade and a removal.

unit=hapax.service
settings=/etc/hapax/hapax.toml
data=/var/lib/private/hapax

# Waits until the server answers.
ready() {
    for _ in $(seq 100); do
        if hapax health "$@" > /dev/null 2>&1; then
            return
        fi
        sleep 0.1
    done
    systemctl status --no-pager "$unit"
    journalctl --no-pager --unit "$unit"
    exit 1
}

workspaces() {
    curl --silent --show-error --fail-with-body http://127.0.0.1:7171/api/v1/workspaces --header "Authorization: Bearer $key"
}

main_pid() {
    systemctl show --property MainPID --value "$unit"
}

dpkg --install /packages/hapax_*.deb
systemctl is-enabled "$unit"
ready --ready
key=$(cat /var/lib/hapax/first-key)
workspaces > /tmp/workspaces
[ -s /tmp/workspaces ]
# Its user exists only while it runs, and the data is that user's alone.
[ "$(stat --format %u "$data")" -ge 61184 ] && [ "$(stat --format %a "$data")" = 700 ]
grep --quiet '^NoNewPrivs:.1' "/proc/$(main_pid)/status"
systemd-analyze security --no-pager "$unit" | tail -n 1

# A crash: systemd starts it again.
before=$(main_pid)
systemctl kill --signal KILL "$unit"
for _ in $(seq 100); do
    after=$(main_pid)
    [ "$after" != "$before" ] && [ "$after" != 0 ] && break
    sleep 0.1
done
[ "$after" != "$before" ]
ready --ready

# An upgrade keeps what an administrator wrote and restarts the server.
echo 'drain = "5s"' >> "$settings"
before=$(main_pid)
dpkg --force-confdef --force-confold --install /upgrade/hapax_later.deb
grep --quiet 'drain = "5s"' "$settings"
[ "$(main_pid)" != "$before" ]
ready --ready
workspaces > /tmp/again
cmp /tmp/workspaces /tmp/again

# Private files come as credentials.
(umask 077 && head -c 32 /dev/urandom | base64 > /etc/hapax/sealing-key)
mkdir -p "/etc/systemd/system/$unit.d"
printf '[Service]\nLoadCredential=sealing-key:/etc/hapax/sealing-key\n' > "/etc/systemd/system/$unit.d/override.conf"
echo 'sealing-key-file = ["/run/credentials/hapax.service/sealing-key"]' >> "$settings"
systemctl daemon-reload
systemctl restart "$unit"
ready --ready

# With an identity file the server waits for its database; a unit that hides the boot id would end it at once. The machine lies on an overlay, which
# the file refuses, so its folder is in memory.
systemctl stop "$unit"
mount -t tmpfs -o mode=0700 none /var/lib/private
cp "$settings" /tmp/settings
echo 'identity-file = "/var/lib/hapax/identity"' >> "$settings"
(umask 077 && echo 'HAPAX_STORE=postgres://hapax:x@127.0.0.1:1/hapax' > /etc/hapax/hapax.env)
systemctl start "$unit"
ready
[ -e "$data/identity" ]
systemctl stop "$unit"
umount /var/lib/private
rm /etc/hapax/hapax.env
cp /tmp/settings "$settings"
systemctl start "$unit"
ready --ready
workspaces > /tmp/again
cmp /tmp/workspaces /tmp/again

dpkg --remove hapax
[ "$(systemctl is-active "$unit")" != active ]
dpkg --purge hapax 2> /tmp/said
grep --quiet 'is kept' /tmp/said
[ -s "$data/hapax.db" ]
