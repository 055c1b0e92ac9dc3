"""Sends bodies that are too large, as http.client and requests do: all of the body first, then the answer is read.

Prints one line for each way: its name, the status, and the code of the problem.
"""

import http.client
import json
import sys

host, port, path, size = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
body = b" " * size
headers = {"Content-Type": "application/json"}


def told(way, status, text):
    print(way, status, json.loads(text)["code"], flush=True)


connection = http.client.HTTPConnection(host, port, timeout=60)
for way in ["length", "again"]:
    connection.request("POST", path, body=body, headers=headers)
    answer = connection.getresponse()
    told(way, answer.status, answer.read())
connection.close()

connection = http.client.HTTPConnection(host, port, timeout=60)
pieces = (body[at : at + 65536] for at in range(0, size, 65536))
connection.request("POST", path, body=pieces, headers=headers, encode_chunked=True)
answer = connection.getresponse()
told("chunked", answer.status, answer.read())

try:
    import requests
except ImportError:
    sys.exit(0)
answer = requests.post(f"http://{host}:{port}{path}", data=body, headers=headers, timeout=60)
told("requests", answer.status_code, answer.text)
