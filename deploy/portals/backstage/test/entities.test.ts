import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  apiEntityV1alpha1Validator,
  componentEntityV1alpha1Validator,
  Entity,
  EntityPolicies,
  FieldFormatEntityPolicy,
  groupEntityV1alpha1Validator,
  NoForeignRootFieldsEntityPolicy,
  resourceEntityV1alpha1Validator,
  SchemaValidEntityPolicy,
} from '@backstage/catalog-model';
import {
  endpointEntities,
  messageGroupEntities,
  schemaEntities,
  Surroundings,
} from '../src/entities';

const AROUND: Surroundings = {
  url: 'https://node.example',
  authority: 'https://node.example',
  namespace: 'default',
  owners: new Map([['https://us.example', 'group:default/us']]),
  cards: new Map([
    [
      'https://node.example',
      { name: 'Platform', contact: 'platform@node.example', url: 'javascript:1' },
    ],
  ]),
  consoleUrl: xid => `https://node.example/console/e${xid}`,
};
const HOSTILE = [
  '',
  ' ',
  'a'.repeat(9000),
  '../../etc',
  '<script>',
  '\u0000\u202e',
  'ключ',
  '{{7*7}}',
  '-._',
];
const POLICY = EntityPolicies.allOf([
  new SchemaValidEntityPolicy(),
  new NoForeignRootFieldsEntityPolicy(),
  new FieldFormatEntityPolicy(),
]);
const VALIDATORS = [
  apiEntityV1alpha1Validator,
  componentEntityV1alpha1Validator,
  groupEntityV1alpha1Validator,
  resourceEntityV1alpha1Validator,
];

async function accepted(entities: Entity[]): Promise<void> {
  for (const entity of entities) {
    // As it is once it was stored.
    const stored = JSON.parse(JSON.stringify(entity));
    assert.ok(await POLICY.enforce(stored), entity.metadata.name);
    const kinds = await Promise.all(VALIDATORS.map(validator => validator.check(stored)));
    assert.equal(kinds.filter(Boolean).length, 1, JSON.stringify(stored));
  }
}

function endpoint(id: string, attributes = {}) {
  return { endpointid: id, xid: `/endpoints/${id}`, usage: ['producer'], ...attributes };
}

test('texts of others stay texts, whatever they are', async () => {
  for (const hostile of HOSTILE) {
    const texts = {
      name: hostile,
      description: hostile,
      documentation: hostile,
      authority: hostile,
    };
    const options = {
      protocol: hostile,
      protocoloptions: { topic: hostile, endpoints: [{ uri: hostile }, 1] },
    };
    await accepted(
      endpointEntities(endpoint('e', { ...texts, ...options }), [], undefined, AROUND),
    );
    const group = { messagegroupid: 'g', xid: '/messagegroups/g', ...texts };
    await accepted(messageGroupEntities(group, { type: 'asyncapi', text: '{}' }, AROUND));
    const schema = { xid: '/schemagroups/g/schemas/s', ...texts, format: hostile, schema: hostile };
    await accepted(schemaEntities(schema, AROUND));
  }
});

test('a producer provides the APIs of what it uses, a consumer consumes them', () => {
  const uses = ['/messagegroups/g', '/schemagroups/g/schemas/s'];
  const [producer] = endpointEntities(endpoint('p'), uses, undefined, AROUND);
  const [consumer] = endpointEntities(
    endpoint('c', { usage: ['consumer'] }),
    uses,
    undefined,
    AROUND,
  );
  assert.deepEqual(producer!.spec!.providesApis, consumer!.spec!.consumesApis);
  assert.equal((producer!.spec!.providesApis as string[])[0], 'api:default/g');
  assert.equal(producer!.spec!.consumesApis, undefined);
});

test('endpoints at one topic depend on one resource', () => {
  const at = {
    protocol: 'KAFKA',
    protocoloptions: { topic: 'orders', endpoints: [{ uri: 'kafka://k' }] },
  };
  const entities = ['a', 'b'].flatMap(id =>
    endpointEntities(endpoint(id, at), [], undefined, AROUND),
  );
  const topics = entities.filter(entity => entity.kind === 'Resource');
  assert.equal(topics.length, 2);
  assert.deepEqual(topics[0], topics[1]);
});

test('an owner is the configured one, or a group with the card of the authority', () => {
  const [theirs, ...none] = endpointEntities(
    endpoint('e', { authority: 'https://us.example' }),
    [],
    undefined,
    AROUND,
  );
  assert.equal(theirs!.spec!.owner, 'group:default/us');
  assert.deepEqual(none, []);
  const [ours, group] = endpointEntities(endpoint('e'), [], undefined, AROUND);
  assert.equal(ours!.spec!.owner, 'group:default/node.example');
  assert.deepEqual(group!.spec!.profile, {
    displayName: 'Platform',
    email: 'platform@node.example',
  });
  assert.deepEqual(group!.metadata.links, []);
});

test('a definition that is too large is named instead', () => {
  const schema = {
    xid: '/schemagroups/g/schemas/s',
    format: 'Avro/1.11',
    schema: 'x'.repeat(2 ** 21),
  };
  const [api] = schemaEntities(schema, AROUND);
  assert.equal(api!.spec!.type, 'avro');
  assert.match(String(api!.spec!.definition), /2097152 bytes/);
});

test('names that fit stay, and others are unique', () => {
  const nameOfGroup = (id: string) =>
    messageGroupEntities(
      { messagegroupid: id, xid: `/messagegroups/${id}` },
      { type: 'asyncapi', text: '{}' },
      AROUND,
    )[0]!.metadata.name;
  assert.equal(nameOfGroup('Orders.orders'), 'Orders.orders');
  const ids = [
    'a:b',
    'a@b',
    'a-b',
    'a~b',
    'a-b-',
    `${'n'.repeat(80)}1`,
    `${'n'.repeat(80)}2`,
    nameOfGroup('a:b'),
  ];
  assert.equal(new Set(ids.map(nameOfGroup)).size, ids.length);
});
