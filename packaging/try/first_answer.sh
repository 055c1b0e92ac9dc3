# Starts a server and asks it for a first answer. Sourced by the others.

if command -v cargo rustc; then
    echo "this machine has Rust, so it proves nothing" >&2
    exit 1
fi

# first_answer COMMAND...: starts `COMMAND dev`, creates a run, and sees that the same call again finds it. Within 10 seconds. Told to end, it
# ends with $ends_with, or 0.
first_answer() {
    began=$(date +%s%3N)
    folder=$(mktemp -d)
    chmod 0777 "$folder"
    "$@" dev --json --listen 127.0.0.1:0 --data "$folder/data" > "$folder/ready" 2> "$folder/log" &
    server=$!
    while [ ! -s "$folder/ready" ]; do
        if ! kill -0 "$server" 2> /dev/null; then
            cat "$folder/log" >&2
            exit 1
        fi
        sleep 0.05
    done
    field() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" "$folder/ready"; }
    url=$(field url) key=$(field apiKey) definition=$(field sampleDefinition)
    body="{\"definitionId\":\"$definition\",\"input\":{\"order\":1},\"idempotencyKey\":\"order-1\"}"
    for expected in true false; do
        answer=$(curl --silent --show-error --fail-with-body "$url/api/v1/workflow-runs" \
            --header "Authorization: Bearer $key" --header 'Content-Type: application/json' --data "$body")
        case "$answer" in
            *"\"created\":$expected"*) ;;
            *) echo "not \"created\": $expected but $answer" >&2; exit 1 ;;
        esac
    done
    took=$(($(date +%s%3N) - began))
    kill -TERM "$server"
    status=0
    wait "$server" || status=$?
    [ "$status" = "${ends_with:-0}" ] || { echo "it did not end in good order: $status" >&2; exit 1; }
    echo "    first answer after $took ms"
    [ "$took" -lt 10000 ] || { echo "that is too long" >&2; exit 1; }
}
