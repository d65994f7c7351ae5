/** Writes what a catalog has into a directory of EventCatalog, and removes what it has no longer. */

import { readFile } from 'node:fs/promises';
import utils from '@eventcatalog/sdk';
import { Concord, Entity } from '../../reading/concord';
import { resourcesOf, Resources } from './resources';

export interface Options {
  /** The base URL of the node; with `file` only for links back. */
  url?: string;
  /** A token that may read the node. */
  token?: string;
  /** A JSON document that `concord export` wrote, which is read instead of a node. */
  file?: string;
  /** Marks what this generator makes; two generators of one EventCatalog need two names. */
  name?: string;
  /** The authority of what has no other one; by default the node's own, or else its URL. */
  authority?: string;
  /** Ids of teams or users who own what an authority owns, instead of a team made for it. */
  owners?: Array<{ authority: string; owner: string }>;
}

const NAMES = new Set(['url', 'token', 'file', 'name', 'authority', 'owners']);

export interface Outcome {
  readonly written: number;
  readonly removed: number;
  /** Ids of resources that others made, and that were left as they are. */
  readonly kept: string[];
}

/** A kind of resources: how the SDK reads, writes and removes them. */
interface Kind {
  readonly all: () => Promise<any[] | undefined>;
  readonly write: (resource: any) => Promise<void>;
  readonly remove: (id: string) => Promise<void>;
  readonly source: (resource: any) => unknown;
}

/**
 * Bring a directory of EventCatalog to the state of a catalog.
 *
 * Texts below the front matter of a page stay as they are once the page is there. Resources that
 * this generator did not make are neither changed nor removed.
 *
 * @throws TypeError if an option is wrong, ConcordError if the node does not answer.
 */
export async function generate(directory: string, options: Options): Promise<Outcome> {
  const { document, resources } = await read(options);
  if (!isCatalog(document)) throw new TypeError('the document is no catalog: it has no groups');
  const sdk = utils(directory);
  const of = (all: Kind['all'], write: Kind['write'], remove: Kind['remove']): Kind => ({
    all,
    write,
    remove,
    source: resource => resource['x-concord']?.source,
  });
  const source = nameOf(options);
  const writer = new Writer(source);
  const schemas = new Map(resources.events.map(({ event, schema }) => [event.id, schema]));
  await writer.bring(resources.teams, {
    all: () => sdk.getTeams(),
    write: team => sdk.writeTeam(team, { override: true }),
    remove: sdk.rmTeamById,
    source: team => String(team.source?.provider ?? '').replace(/^concord:/, ''),
  });
  await writer.bring(
    resources.channels,
    of(
      () => sdk.getChannels(),
      each => sdk.writeChannel(each, at(each)),
      sdk.rmChannelById,
    ),
  );
  await writer.bring(
    resources.events.map(({ event }) => event),
    of(
      () => sdk.getEvents(),
      async event => {
        await sdk.writeEvent(event, at(event));
        const schema = schemas.get(event.id);
        if (schema) await sdk.addSchemaToEvent(event.id, schema, event.version);
      },
      sdk.rmEventById,
    ),
  );
  await writer.bring(
    resources.services,
    of(
      () => sdk.getServices(),
      each => sdk.writeService(each, at(each)),
      sdk.rmServiceById,
    ),
  );
  await writer.bring(
    resources.domains,
    of(
      () => sdk.getDomains(),
      each => sdk.writeDomain(each, at(each)),
      sdk.rmDomainById,
    ),
  );
  return writer;
}

function at({ id }: { id: string }) {
  return { path: `/${id}`, override: true };
}

class Writer implements Outcome {
  written = 0;
  removed = 0;
  kept: string[] = [];

  constructor(private readonly name: string) {}

  /** Write resources of a kind, and remove those that this generator made and that are gone. */
  async bring(wanted: { id: string; markdown: string }[], kind: Kind): Promise<void> {
    const present = new Map<string, any>(((await kind.all()) ?? []).map(each => [each.id, each]));
    for (const resource of wanted) {
      const existing = present.get(resource.id);
      if (existing && kind.source(existing) !== this.name) {
        this.kept.push(resource.id);
        continue;
      }
      await kind.write({ ...resource, markdown: existing?.markdown || resource.markdown });
      this.written += 1;
    }
    const ids = new Set(wanted.map(({ id }) => id));
    for (const [id, resource] of present) {
      if (ids.has(id) || kind.source(resource) !== this.name) continue;
      await kind.remove(id);
      this.removed += 1;
    }
  }
}

async function read(options: Options): Promise<{ document: Entity; resources: Resources }> {
  const unknown = Object.keys(options).filter(name => !NAMES.has(name));
  if (unknown.length) throw new TypeError(`unknown options: ${unknown.join(', ')}`);
  const { url, token, file } = options;
  if (!url && !file) throw new TypeError('give the url of a node, or the file of an export');
  const node = url ? new Concord({ url, token }) : undefined;
  const document = file ? await readExport(file) : await node!.export();
  const own = options.authority ?? (file ? undefined : await node!.authority());
  const around = {
    source: nameOf(options),
    url: node?.url ?? '',
    authority: own ?? node?.url ?? nameOf(options),
    cards: file ? new Map() : await node!.cards(),
    owners: new Map(options.owners?.map(({ authority, owner }) => [authority, owner])),
    consoleUrl: (xid: string) => node?.consoleUrl(xid),
  };
  return { document, resources: resourcesOf(document, around) };
}

async function readExport(file: string): Promise<Entity> {
  const text = await readFile(file, 'utf8');
  try {
    return JSON.parse(text);
  } catch {
    throw new TypeError(`${file} is no JSON: concord export -o FILE.json writes it`);
  }
}

function nameOf({ name }: Options): string {
  return name ?? 'concord';
}

/** Whether a document has groups: without, everything that was generated would be removed. */
function isCatalog(document: Entity): boolean {
  return ['endpoints', 'messagegroups', 'schemagroups'].some(plural => plural in document);
}
