import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import utils from '@eventcatalog/sdk';
import { generate } from '../src/generator';
import { semanticVersion } from '../src/resources';

const XID = '/messagegroups/shop/messages/placed';

/** An export with one message group, its endpoint and its schema. */
function exported(message: Record<string, unknown> = {}) {
  const version = {
    isdefault: true,
    versionid: '2',
    dataschemauri: '#/schemagroups/shop/schemas/order',
    ...message,
  };
  const messages = { placed: { messageid: 'placed', xid: XID, versions: { 2: version } } };
  return {
    messagegroups: { shop: { messagegroupid: 'shop', xid: '/messagegroups/shop', messages } },
    endpoints: {
      bill: {
        endpointid: 'bill',
        xid: '/endpoints/bill',
        usage: ['consumer'],
        protocol: 'KAFKA',
        protocoloptions: { topic: 'orders', endpoints: [{ uri: 'kafka://k:9092' }] },
        messagegroups: ['/messagegroups/shop'],
      },
    },
    schemagroups: {
      shop: {
        schemas: {
          order: {
            versions: { 1: { isdefault: true, format: 'Avro/1.11', schema: { type: 'int' } } },
          },
        },
      },
    },
  };
}

let directory: string;
let file: string;

async function run(document: object, name?: string) {
  await writeFile(file, JSON.stringify(document));
  return generate(directory, { file, name, url: 'https://node.example' });
}

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'eventcatalog-'));
  file = join(directory, 'export.json');
});
afterEach(() => rm(directory, { recursive: true }));

test('a service receives the messages of its endpoint over its channel', async () => {
  await run(exported());
  const sdk = utils(directory);
  const [event] = await sdk.getEvents();
  const [service] = await sdk.getServices();
  const [channel] = await sdk.getChannels();
  const [domain] = await sdk.getDomains();
  const [team] = await sdk.getTeams();
  const at = [{ id: channel!.id, version: channel!.version }];
  assert.deepEqual(service!.receives, [{ id: event!.id, version: '2.0.0', from: at }]);
  assert.deepEqual(service!.sends, []);
  assert.deepEqual([channel!.address, channel!.protocols], ['orders', ['kafka']]);
  assert.deepEqual(domain!.services, [{ id: service!.id, version: service!.version }]);
  assert.deepEqual(event!.owners, [team!.id]);
  assert.equal(event!.editUrl, `https://node.example/console/e${XID}`);
  assert.equal((await sdk.getSchemaForMessage(event!.id))?.fileName, 'schema.avsc');
});

test('a second run updates what is there, and removes what is gone', async () => {
  await run(exported());
  const changed = exported({ description: 'An order was placed' });
  const { endpoints: _, ...withoutEndpoints } = changed;
  assert.equal((await run(withoutEndpoints)).removed, 2);
  const sdk = utils(directory);
  assert.equal(await sdk.getServices(), undefined);
  assert.equal(await sdk.getChannels(), undefined);
  assert.equal((await sdk.getEvents())[0]!.summary, 'An order was placed');
});

test('text that people wrote below stays', async () => {
  await run(exported());
  const sdk = utils(directory);
  const [event] = await sdk.getEvents();
  await sdk.writeEvent(
    { ...event!, markdown: 'Ask the shop.' },
    { override: true, path: `/${event!.id}` },
  );
  await run(exported({ description: 'new' }));
  const [after] = await sdk.getEvents();
  assert.deepEqual([after!.markdown, after!.summary], ['Ask the shop.', 'new']);
});

test('what others made is neither changed nor removed', async () => {
  const sdk = utils(directory);
  await sdk.writeDomain({ id: 'shop', name: 'Ours', version: '0.0.1', markdown: 'ours' });
  await sdk.writeService({ id: 'handmade', name: 'Handmade', version: '0.0.1', markdown: 'ours' });
  assert.deepEqual((await run(exported())).kept, ['shop']);
  await run({ messagegroups: {} });
  assert.deepEqual(
    (await sdk.getDomains()).map(({ name }) => name),
    ['Ours'],
  );
  assert.deepEqual(
    (await sdk.getServices()).map(({ id }) => id),
    ['handmade'],
  );
  assert.equal(await sdk.getEvents(), undefined);
});

test('two generators leave each other alone', async () => {
  await run(exported());
  await run({ messagegroups: {} }, 'other');
  assert.equal((await utils(directory).getEvents()).length, 1);
});

test('texts of others stay texts', async () => {
  for (const hostile of [
    '---\nid: x',
    '<script>',
    '{process.exit(1)}',
    '\u0000',
    '../..',
    '{{7*7}}',
  ]) {
    await run(
      exported({
        description: hostile,
        name: hostile,
        documentation: 'javascript:1',
        versionid: hostile,
      }),
    );
    const [event] = await utils(directory).getEvents();
    assert.equal(event!.markdown, '<NodeGraph />\n\n<Schema file="schema.avsc" />');
    assert.equal(event!.attachments!.length, 1);
    assert.equal(event!.version, '1.0.0');
  }
});

test('a file that is no catalog changes nothing', async () => {
  await run(exported());
  await assert.rejects(run({ title: 'something else' }), TypeError);
  await writeFile(file, 'endpoints: {}');
  await assert.rejects(generate(directory, { file }), /is no JSON/);
  assert.equal((await utils(directory).getEvents()).length, 1);
});

test('version ids become versions', () => {
  const versions = ['1', '1.2', 'v1.2.3', '1.2.3-beta', '007', 'latest', undefined].map(
    semanticVersion,
  );
  assert.deepEqual(versions, ['1.0.0', '1.2.0', '1.2.3', '1.2.3-beta', '7.0.0', '1.0.0', '1.0.0']);
});
