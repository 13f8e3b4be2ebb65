"""Sends messages to a topic and receives them again, knowing only the name server.

Arguments: name server, topic, number of messages, seconds to wait for them.
"""

import os
import sys
import time

from rocketmq.client import Message, Producer, PushConsumer


def send(name_server, topic, count):
    producer = Producer("cpp-producer")
    producer.set_namesrv_addr(name_server)
    producer.start()
    for i in range(count):
        message = Message(topic)
        message.set_body(f"message {i}")
        result = producer.send_sync(message)
        if result.status != 0:
            raise RuntimeError(f"message {i}: status {result.status}")
    producer.shutdown()
    return count


def receive(name_server, topic, count, seconds):
    bodies = set()
    consumer = PushConsumer("cpp-consumer")
    consumer.set_namesrv_addr(name_server)
    consumer.subscribe(topic, lambda message: bodies.add(message.body))
    consumer.start()
    deadline = time.monotonic() + seconds
    while len(bodies) < count and time.monotonic() < deadline:
        time.sleep(0.05)
    return len(bodies)


def main():
    name_server, topic, count, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    print("> sent", send(name_server, topic, count), flush=True)
    print("> received", receive(name_server, topic, count, seconds), flush=True)
    # The library takes long to shut a consumer down and has nothing to save.
    os._exit(0)


main()
