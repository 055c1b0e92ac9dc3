# The program from its archive, checked by its checksum.
. /try/first_answer.sh

cd /packages
sha256sum --check --quiet SHA256SUMS
mkdir /opt/hapax
tar --extract --gzip --file hapax-*-linux-*.tar.gz --directory /opt/hapax --strip-components=1
/opt/hapax/hapax --version
for file in LICENSE-MIT LICENSE-APACHE README.md completions/hapax.bash; do
    [ -s "/opt/hapax/$file" ]
done
first_answer /opt/hapax/hapax
# As somebody without rights, too.
cd /tmp
first_answer setpriv --reuid=65534 --regid=65534 --clear-groups /opt/hapax/hapax
