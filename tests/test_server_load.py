"""mra-server under load: many clients, clients that are slow or leave, a full queue, the end by a signal, memory.

    python tests/test_server_load.py BIN        MRA_TEST_LONG=1: 100,000 requests
"""
from __future__ import annotations

import base64
import http.client
import json
import os
import signal
import socket
import sys
import time
import unittest

from server_client import Server, embed_rows, in_threads, wait_until

BIN = ""
LONG = os.environ.get("MRA_TEST_LONG") == "1"
N_HEAVY = 1024
HEAVY = {"inputs": ["a b c d " * 30] * N_HEAVY}  # some hundred milliseconds of work for the tiny model
HEAD = b"POST /embed HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"


def texts_of(i: int) -> list:
    words = "a man is eating some food and it rains in the mountains".split()
    return [" ".join(words[(i + k) % len(words)] for k in range((7 * i + 3 * t) % 40 + 1)) for t in range(i % 5 + 1)]


class Clients(unittest.TestCase):
    def test_equal_to_the_program(self):
        """Whatever runs beside it, a text gets the numbers that mra-embed prints."""
        n, repeats = 12, 3
        want = [embed_rows(BIN, texts_of(i), "--normalize") for i in range(n)]
        with Server(BIN, "--batch-ms", "10000", "--max-queue", "1000", "--timeout", "1000", threads=2) as s:

            def client(i: int) -> list:
                c, rows = s.connect(), []
                for _ in range(repeats):
                    r = s.post("/v1/embeddings", {"input": texts_of(i), "encoding_format": "base64"}, connection=c)
                    rows.append([base64.b64decode(d["embedding"]) for d in r.json["data"]])
                c.close()
                return rows

            for i, got in enumerate(in_threads(n, client)):
                self.assertEqual(got, [want[i]] * repeats)
            self.assertLess(s.metric("mra_batch_texts_count"), s.metric("mra_texts_total"))  # some went together

    def test_short_beside_long(self):
        """A list of thousands does not hold up a text that comes later, and is finished all the same."""
        with Server(BIN, "--batch-ms", "5") as s:

            def client(i: int) -> int:
                if i == 0:
                    r = s.post("/embed", HEAVY)
                    self.assertEqual(len(r.json), N_HEAVY)
                    return len(r.json)
                wait_until(lambda: s.metric("mra_queue_requests") >= 1)
                for _ in range(5):
                    self.assertEqual(s.post("/embed", {"inputs": HEAVY["inputs"][0]}).status, 200)  # no gap fits it
                return s.metric("mra_texts_total")

            of_list, computed = in_threads(2, client)
            self.assertLess(computed, of_list)  # when the short ones are done

    def test_slow_clients(self):
        body = json.dumps({"inputs": "a meal"}).encode()
        with Server(BIN) as s:
            want = s.post("/embed", body).bytes
            slow, half, silent = s.raw(), s.raw(), [s.raw() for _ in range(50)]
            half.sendall(HEAD % 1000 + body)  # and no more
            message = HEAD % len(body) + body
            for i in range(0, len(message), 3):
                slow.sendall(message[i:i + 3])
                if i % 30 == 0:
                    self.assertEqual(s.post("/embed", body).bytes, want)  # others do not wait
            r = http.client.HTTPResponse(slow)
            r.begin()
            self.assertEqual(r.read(), want)
            half.shutdown(socket.SHUT_WR)
            for x in (slow, half, *silent):
                x.close()
            before = s.n_files()
            self.assertTrue(wait_until(lambda: s.n_files() < before or before < 30))
            self.assertEqual(s.post("/embed", body).bytes, want)

    def test_slow_reader(self):
        """A reply of megabytes that is read late: nobody else waits, and it is complete."""
        body = json.dumps({"inputs": ["a b c d " * 10] * 600}).encode()
        with Server(BIN) as s:
            want = s.post("/embed_all", body).bytes
            self.assertGreater(len(want), 1_000_000)
            late = s.raw()
            late.sendall(b"POST /embed_all HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            for _ in range(20):
                self.assertEqual(s.post("/embed", {"inputs": "a"}).status, 200)
            r = http.client.HTTPResponse(late)
            r.begin()
            self.assertEqual(r.read(), want)
            late.close()

    def test_clients_that_leave(self):
        body = json.dumps(HEAVY).encode()
        with Server(BIN) as s:
            started = time.monotonic()
            s.post("/embed", body)
            alone, texts = time.monotonic() - started, s.metric("mra_texts_total")
            gone = []
            for _ in range(12):
                c = s.raw()
                c.sendall(HEAD % len(body) + body)
                gone.append(c)
            self.assertTrue(wait_until(lambda: s.metric("mra_queue_requests") >= 2))
            for c in gone:
                c.close()
            self.assertTrue(wait_until(lambda: s.metric("mra_queue_requests") == 0))
            self.assertEqual(s.post("/embed", {"inputs": "a"}).status, 200)
            self.assertGreater(s.metric("mra_clients_gone_total"), 0)
            self.assertLess(s.metric("mra_texts_total") - texts, 12 * N_HEAVY * 0.9, f"alone {alone:.2f} s")

    def test_batch_nobody_waits_for(self):
        """A client that leaves while its texts are being computed: the encoder stops."""
        body = json.dumps({"inputs": HEAVY["inputs"] * 2}).encode()
        with Server(BIN, "--batch-ms", "1000000") as s:  # all in one batch
            c = s.raw()
            c.sendall(HEAD % len(body) + body)
            self.assertTrue(wait_until(lambda: s.metric("mra_queue_requests") == 1))
            c.close()
            self.assertTrue(wait_until(lambda: s.metric("mra_queue_requests") == 0))
            self.assertEqual(s.post("/embed", {"inputs": "a"}).status, 200)
            self.assertEqual((s.metric("mra_texts_total"), s.metric("mra_clients_gone_total")), (1, 1))


class Limits(unittest.TestCase):
    def test_full_queue(self):
        """429 with Retry-After, alike for a text and for a list; those that were accepted are served."""
        with Server(BIN, "--max-queue", "0.02") as s:
            codes = {}

            def client(i: int):
                if i == 0:
                    return s.post("/embed", HEAVY).status
                wait_until(lambda: s.metric("mra_queue_seconds") > 0.05)
                inputs = "a" if i % 2 else ["a", "b", "c"]
                r = s.post("/embed", {"inputs": inputs})
                if r.status == 429:
                    self.assertGreaterEqual(int(r.headers["Retry-After"]), 1)
                    self.assertEqual(r.json["error_type"], "Overloaded")
                    self.assertIn("overloaded: ask again in", r.error())
                codes[i] = r.status
                return r.status

            results = in_threads(9, client)
            self.assertEqual(results[0], 200, results)
            self.assertEqual(set(results[1:]), {429}, results)
            self.assertEqual(s.post("/embed", {"inputs": "a"}).status, 200)  # it goes on
            self.assertEqual(s.metric('mra_requests_total{method="POST",route="/embed",status="429"}'), 8)

    def test_larger_than_all_limits(self):
        """A request above the batch's and the queue's work runs when nothing else does."""
        with Server(BIN, "--max-queue", "0.001", "--batch-ms", "0.01") as s:
            self.assertEqual(len(s.post("/embed", {"inputs": ["a b c d " * 30] * 300}).json), 300)

    def test_timeout(self):
        with Server(BIN, "--timeout", "0.05") as s:
            r = s.post("/embed", HEAVY)
            self.assertEqual(r.status, 503)
            self.assertIn("not finished within 0.05 s", r.error())
            self.assertEqual(s.post("/embed", {"inputs": "a"}).status, 200)
            self.assertEqual(s.metric("mra_timeouts_total"), 1)

    def test_connections(self):
        with Server(BIN, "--max-connections", "8") as s:
            many = [s.raw() for _ in range(40)]
            for c in many:
                c.close()
            self.assertTrue(wait_until(lambda: s.get("/health").status == 200))


class End(unittest.TestCase):
    def test_finishes_what_it_has(self):
        for sig in (signal.SIGTERM, signal.SIGINT):
            with Server(BIN) as s:

                def client(i: int):
                    if i < 4:
                        return s.post("/embed", HEAVY)
                    wait_until(lambda: s.metric("mra_queue_requests") >= 4)
                    idle = s.raw()
                    code = s.stop(sig)
                    idle.close()
                    self.assertRaises(OSError, s.raw)  # nobody listens any more
                    return code

                results = in_threads(5, client)
                self.assertEqual(results[4], 0, results[4])
                for r in results[:4]:
                    self.assertEqual((r.status, len(r.json)), (200, N_HEAVY))
                self.assertIn("mra-server: stopping; ", s.messages())

    def test_reply_that_is_being_read(self):
        """Of a reply that is larger than what the system buffers, nothing is lost either."""
        n = 600
        body = json.dumps({"inputs": ["a b c d " * 10] * n}).encode()
        with Server(BIN) as s:
            late = socket.socket()
            late.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            late.settimeout(60)
            late.connect(("127.0.0.1", s.port))
            late.sendall(HEAD.replace(b"/embed", b"/embed_all") % len(body) + body)
            first = late.recv(1, socket.MSG_PEEK)  # the reply has begun
            s.process.send_signal(signal.SIGTERM)
            self.assertTrue(wait_until(lambda: "stopping" in s.messages()))
            time.sleep(0.3)
            self.assertEqual(first, b"H")
            r = http.client.HTTPResponse(late)
            r.begin()
            self.assertEqual(len(json.loads(r.read())), n)
            late.close()
            self.assertEqual(s.process.wait(20), 0)

    def test_second_signal(self):
        with Server(BIN) as s:
            body = json.dumps(HEAVY).encode()
            clients = [s.raw() for _ in range(3)]
            for c in clients:
                c.sendall(HEAD % len(body) + body)
            wait_until(lambda: s.metric("mra_queue_requests") >= 1)
            s.process.send_signal(signal.SIGTERM)
            time.sleep(0.05)
            s.process.send_signal(signal.SIGTERM)
            self.assertEqual(s.process.wait(20), -signal.SIGTERM)
            for c in clients:
                c.close()


class Memory(unittest.TestCase):
    def test_flat(self):
        """After the first thousands of requests of all kinds memory does not grow, nor do open files."""
        n = 20000 if LONG else 500
        with Server(BIN) as s:

            def client(i: int) -> None:
                c = s.connect()
                for k in range(n):
                    s.post("/v1/embeddings", {"input": texts_of(i * 31 + k)}, connection=c)
                    if k % 10 == 0:
                        s.post("/rerank", {"query": "a", "texts": texts_of(k)}, connection=c)
                        s.post("/predict", {"inputs": "a"}, connection=c)
                        s.post("/embed_all", {"inputs": texts_of(k)}, connection=c)
                        s.post("/embed", b"{broken", connection=c)
                        c.close()
                        c = s.connect()
                c.close()

            def round_of_five():
                self.assertEqual(in_threads(5, client), [None] * 5)

            round_of_five()
            round_of_five()
            before, files = s.rss_kb(), s.n_files()
            round_of_five()
            self.assertLess(s.rss_kb() - before, 1500, f"KB, at {before}")
            self.assertTrue(wait_until(lambda: s.n_files() <= files))
            print(f"{s.metric('mra_texts_total'):.0f} texts, {s.rss_kb()} KB, {s.rss_kb() - before} more than before the last round")


if __name__ == "__main__":
    BIN = sys.argv.pop(1)
    unittest.main()
