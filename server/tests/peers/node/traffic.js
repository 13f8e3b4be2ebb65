// Sends messages to a topic and receives them again, knowing only the name server.
//
// Arguments: name server, topic, number of messages, seconds to wait for them.
'use strict';

const { Consumer, Message, Producer } = require('ali-ons');

const [nameServer, topic, count, seconds] = process.argv.slice(2);
const logger = { debug() {}, info() {}, warn: console.error, error: console.error };

function options(group) {
  return {
    ...group,
    nameSrv: [nameServer],
    // Only used to ask a web service for name servers; there is none here.
    httpclient: {},
    logger,
    rebalanceInterval: 1000,
  };
}

async function send() {
  const producer = new Producer(options({ producerGroup: 'node-producer' }));
  await producer.ready();
  for (let i = 0; i < count; i++) {
    const result = await producer.send(new Message(topic, 'tag', `message ${i}`));
    if (result.sendStatus !== 'SEND_OK') {
      throw new Error(`message ${i}: ${result.sendStatus}`);
    }
  }
  return count;
}

async function receive() {
  const bodies = new Set();
  const consumer = new Consumer(options({ consumerGroup: 'node-consumer' }));
  consumer.on('error', error => console.error(error));
  consumer.subscribe(topic, '*', async message => {
    bodies.add(message.body.toString());
  });
  const deadline = Date.now() + seconds * 1000;
  while (bodies.size < count && Date.now() < deadline) {
    await new Promise(resolve => setTimeout(resolve, 50));
  }
  return bodies.size;
}

async function main() {
  console.log('> sent', await send());
  console.log('> received', await receive());
}

main().then(
  () => process.exit(0),
  error => {
    console.log('> failed', error);
    process.exit(1);
  },
);
