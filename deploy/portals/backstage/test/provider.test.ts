import assert from 'node:assert/strict';
import { createServer, IncomingMessage, Server, ServerResponse } from 'node:http';
import { AddressInfo } from 'node:net';
import { afterEach, beforeEach, test } from 'node:test';
import type { LoggerService } from '@backstage/backend-plugin-api';
import type { EntityProviderMutation } from '@backstage/plugin-catalog-node';
import { Concord, ConcordError } from '../../reading/concord';
import { ConcordEntityProvider } from '../src/provider';

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

const GROUP = { messagegroupid: 'shop', xid: '/messagegroups/shop' };
const ASYNCAPI = '{"asyncapi":"3.0.0"}';

let server: Server;
let url: string;
/** What the node answers, by path; other paths are not there. */
let answers: Record<string, Answer>;
let warnings: string[];
let mutations: EntityProviderMutation[];

function json(value: unknown): Answer {
  return (_, response) => {
    response.setHeader('Content-Type', 'application/json').end(JSON.stringify(value));
  };
}

function refused(status: number, headers: Record<string, string> = {}): Answer {
  return (_, response) => {
    response.writeHead(status, headers).end('{"title":"no"}');
  };
}

function logger(): LoggerService {
  const nothing = () => undefined;
  const made: LoggerService = {
    error: nothing,
    info: nothing,
    debug: nothing,
    warn: message => void warnings.push(message),
    child: () => made,
  };
  return made;
}

/** One turn, which ends with the first page of changes. */
async function turn(): Promise<void> {
  const concord = new Concord({ url, token: 'secret' });
  const controller = new AbortController();
  const provider = new ConcordEntityProvider({
    id: 'node',
    concord,
    namespace: 'default',
    owners: new Map(),
    logger: logger(),
    schedule: { run: async task => task.fn(controller.signal) },
    turnSeconds: 60,
  });
  answers['/replication/changes'] = (_, response) => {
    controller.abort();
    response.end('{"cursor":"2"}\n');
  };
  await provider.connect({
    applyMutation: async mutation => void mutations.push(mutation),
    refresh: async () => undefined,
  });
}

function shop(): any {
  const [mutation] = mutations;
  assert.equal(mutation?.type, 'full');
  const { entities } = mutation as Extract<EntityProviderMutation, { type: 'full' }>;
  return entities.map(each => each.entity).find(entity => entity.kind === 'API');
}

beforeEach(async () => {
  [warnings, mutations] = [[], []];
  answers = {
    '/-/authorities': json({ authorities: [{ authority: 'https://node.example', isown: true }] }),
    '/replication/digests': (_, response) => {
      response.setHeader('Concord-Cursor', '1').end();
    },
    '/messagegroups': json({ shop: GROUP }),
    '/-/references': json({ references: [] }),
    '/export': (_, response) => {
      response.setHeader('Content-Type', 'application/vnd.aai.asyncapi+json; version=3.0.0');
      response.end(ASYNCAPI);
    },
  };
  server = createServer((request, response) => {
    const { pathname } = new URL(request.url!, url);
    assert.equal(request.headers.authorization, 'Bearer secret');
    (answers[pathname] ?? refused(404))(request, response);
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(() => {
  server.closeAllConnections();
  server.close();
});

test('a node that exports AsyncAPI is asked for it', async () => {
  let accept: string | undefined;
  const exported = answers['/export']!;
  answers['/export'] = (request, response) => {
    accept = request.headers.accept;
    exported(request, response);
  };
  await turn();
  assert.match(accept!, /^application\/vnd\.aai\.asyncapi\+json;version=3\.0\.0/);
  assert.deepEqual([shop().spec.type, shop().spec.definition], ['asyncapi', ASYNCAPI]);
});

test('a node without AsyncAPI shows its own JSON', async () => {
  answers['/export'] = json({ messagegroups: { shop: GROUP, other: {} } });
  await turn();
  assert.equal(shop().spec.type, 'xregistry');
  assert.deepEqual(JSON.parse(shop().spec.definition), { messagegroups: { shop: GROUP } });
});

test('a group that cannot be exported holds back no other part', async () => {
  answers['/export'] = refused(500);
  await turn();
  assert.match(shop().spec.definition, /^The definition cannot be read/);
  assert.equal(warnings.length, 1);
});

test('a busy node is asked again when it says so', async () => {
  const [groups, busy] = [answers['/messagegroups']!, refused(503, { 'Retry-After': '0' })];
  let asked = 0;
  answers['/messagegroups'] = (...of) => (++asked < 3 ? busy : groups)(...of);
  await turn();
  assert.ok(shop());
});

test('a refusal changes nothing in the catalog', async () => {
  answers['/endpoints'] = refused(403);
  await assert.rejects(turn(), { status: 403 });
  assert.deepEqual(mutations, []);
});

test('the token follows no redirect and no other host', async () => {
  answers['/endpoints'] = refused(302, { Location: 'http://127.0.0.1:9/' });
  await assert.rejects(turn(), ConcordError);
  let asked = 0;
  answers['/endpoints'] = (_, response) => {
    asked += 1;
    const link = '<http://127.0.0.1:9/endpoints?after=1>;rel=next';
    if (asked === 1) response.setHeader('Link', link);
    response.end('{}');
  };
  await turn();
  assert.equal(asked, 2);
});
