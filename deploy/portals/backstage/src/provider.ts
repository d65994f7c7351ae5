/** The entity provider: everything at the beginning of a turn, then what changes, until it ends. */

import { setTimeout as sleep } from 'node:timers/promises';
import type { LoggerService, SchedulerServiceTaskRunner } from '@backstage/backend-plugin-api';
import { Entity as BackstageEntity, stringifyEntityRef } from '@backstage/catalog-model';
import type { EntityProvider, EntityProviderConnection } from '@backstage/plugin-catalog-node';
import { Card, Concord, ConcordError, Entity } from '../../reading/concord';
import {
  Definition,
  endpointEntities,
  hasOwnMessages,
  messageGroupEntities,
  namedMessageGroups,
  partOf,
  schemaEntities,
  Surroundings,
} from './entities';

const ASYNCAPI = 'application/vnd.aai.asyncapi+json';
const ACCEPT = `${ASYNCAPI};version=3.0.0`;
const AT_ONCE = 8;
/** What a node takes: it accepts 32 filters, and servers request lines of 8 KiB. */
const MOST_FILTERS = 16;
const LONGEST_FILTERS = 5000;
const LONGEST_PAUSE_SECONDS = 60;

export interface ProviderOptions {
  /** The id in the configuration; it names the provider for as long as its entities last. */
  readonly id: string;
  readonly concord: Concord;
  readonly namespace: string;
  readonly owners: ReadonlyMap<string, string>;
  readonly logger: LoggerService;
  readonly schedule: SchedulerServiceTaskRunner;
  /** How long one turn follows the feed, before the next one reads everything again. */
  readonly turnSeconds: number;
}

/** What the provider knows of a part of the catalog: its entities, and the parts that it shows. */
interface Part {
  readonly refs: readonly string[];
  readonly uses: ReadonlySet<string>;
}

interface ReadPart {
  readonly xid: string;
  readonly entities: BackstageEntity[];
  readonly uses: string[];
}

/** Follows a Concord node by its feed of changes, which needs no open port at Backstage. */
export class ConcordEntityProvider implements EntityProvider {
  private readonly logger: LoggerService;
  private connection: EntityProviderConnection | undefined;
  private parts = new Map<string, Part>();
  private authority = '';
  private cards = new Map<string, Card>();

  constructor(private readonly options: ProviderOptions) {
    this.logger = options.logger.child({ target: this.getProviderName() });
  }

  getProviderName(): string {
    return `concord:${this.options.id}`;
  }

  async connect(connection: EntityProviderConnection): Promise<void> {
    this.connection = connection;
    await this.options.schedule.run({
      id: `${this.getProviderName()}:follow`,
      fn: signal => this.follow(signal),
    });
  }

  /**
   * One turn, on whichever instance of the backend the scheduler gives it to.
   *
   * An error of the first reading is the scheduler's, which logs it and begins another turn. Later
   * ones are repeated from the same cursor.
   */
  async follow(signal: AbortSignal): Promise<void> {
    const end = Date.now() + this.options.turnSeconds * 1000;
    let cursor = await this.readAll(signal);
    let failures = 0;
    while (!signal.aborted && Date.now() < end) {
      try {
        const page = await this.options.concord.changes(cursor, signal);
        await this.readChanged(
          page.changes.map(change => change.xid),
          signal,
        );
        cursor = page.cursor;
        failures = 0;
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof ConcordError && error.isCursorGone) {
          this.logger.info('the feed no longer goes on from here: reading everything again');
          cursor = await this.readAll(signal);
          continue;
        }
        failures += 1;
        const seconds = Math.min(2 ** failures, LONGEST_PAUSE_SECONDS);
        this.logger.warn(`changes are not read, trying again in ${seconds} s: ${error}`);
        await sleep(seconds * 1000, undefined, { signal }).catch(() => undefined);
      }
    }
  }

  /** Give the catalog everything that the node has now. */
  private async readAll(signal: AbortSignal): Promise<string> {
    const { concord } = this.options;
    const cursor = await concord.cursor(signal);
    this.authority = await concord.authority(signal);
    this.cards = await concord.cards(signal);
    const read: ReadPart[] = [];
    for (const path of ['/endpoints', '/messagegroups']) {
      for await (const page of concord.pages(path, [], signal)) {
        read.push(...(await inBatches(page, each => this.partFrom(each, signal))));
      }
    }
    for await (const groups of concord.pages('/schemagroups', [], signal)) {
      for (const group of groups) {
        const schemas = concord.pages(`${group.xid}/schemas`, [['inline', 'schema']], signal);
        for await (const page of schemas) {
          read.push(...(await inBatches(page, each => this.partFrom(each, signal))));
        }
      }
    }
    const entities = byRef(read);
    await this.mutate({ type: 'full', entities: [...entities.values()].map(this.deferred) });
    this.parts = new Map(read.map(part => [part.xid, known(part)]));
    this.logger.info(`read ${read.length} parts of the catalog as ${entities.size} entities`);
    return cursor;
  }

  /** Give the catalog the parts that changed, and the parts that show them. */
  private async readChanged(xids: string[], signal: AbortSignal): Promise<void> {
    const changed = new Set(xids.map(partOf).filter((xid): xid is string => xid !== undefined));
    if (!changed.size) return;
    for (const [xid, part] of this.parts) {
      if ([...changed].some(each => part.uses.has(each))) changed.add(xid);
    }
    const found = await inBatches([...changed], xid => this.partAt(xid, signal));
    const read = found.filter((part): part is ReadPart => part !== undefined);
    const parts = new Map(this.parts);
    changed.forEach(xid => parts.delete(xid));
    read.forEach(part => parts.set(part.xid, known(part)));
    const kept = new Set([...parts.values()].flatMap(part => part.refs));
    const former = [...changed].flatMap(xid => this.parts.get(xid)?.refs ?? []);
    const removed = [...new Set(former)].filter(ref => !kept.has(ref));
    const added = [...byRef(read).values()].map(this.deferred);
    await this.mutate({
      type: 'delta',
      added,
      removed: removed.map(entityRef => ({ entityRef, locationKey: this.getProviderName() })),
    });
    this.parts = parts;
    this.logger.info(`${added.length} entities were written, ${removed.length} removed`);
  }

  private async partAt(xid: string, signal: AbortSignal): Promise<ReadPart | undefined> {
    const isSchema = xid.startsWith('/schemagroups/');
    const entity = isSchema
      ? await this.options.concord.entity(`${xid}$details`, [['inline', 'schema']], signal)
      : await this.options.concord.entity(xid, [], signal);
    return entity && this.partFrom(entity, signal);
  }

  private async partFrom(entity: Entity, signal: AbortSignal): Promise<ReadPart> {
    const xid: string = entity.xid;
    if (xid.startsWith('/schemagroups/')) {
      return { xid, uses: [], entities: schemaEntities(entity, this.surroundings) };
    }
    const targets = await this.options.concord.targets(xid, signal);
    const named = [...targets, ...namedMessageGroups(entity)].map(partOf);
    const uses = [
      ...new Set(named.filter((each): each is string => !!each && each !== xid)),
    ].sort();
    if (xid.startsWith('/endpoints/')) {
      const own = hasOwnMessages(entity) ? await this.definition(xid, uses, signal) : undefined;
      return { xid, uses, entities: endpointEntities(entity, uses, own, this.surroundings) };
    }
    const definition = await this.definition(xid, uses, signal);
    return { xid, uses, entities: messageGroupEntities(entity, definition, this.surroundings) };
  }

  /**
   * A group with all that its messages refer to: AsyncAPI, or JSON of a node that has none.
   *
   * A group that the node cannot export holds back no other one.
   */
  private async definition(xid: string, uses: string[], signal: AbortSignal): Promise<Definition> {
    const [, plural = '', id = ''] = xid.split('/');
    const filters = new Set([xid, ...uses].map(filterOf));
    try {
      const exported = await this.options.concord.document(bounded(filters), ACCEPT, signal);
      if (exported.mediaType === ASYNCAPI) return { type: 'asyncapi', text: exported.text };
      const group = JSON.parse(exported.text)[plural]?.[id] ?? {};
      return { type: 'xregistry', text: JSON.stringify({ [plural]: { [id]: group } }, null, 2) };
    } catch (error) {
      if (!(error instanceof ConcordError) || error.isRetryable) throw error;
      this.logger.warn(`the definition of ${xid} cannot be read: ${error.message}`);
      return { type: 'xregistry', text: `The definition cannot be read: ${error.message}` };
    }
  }

  private get surroundings(): Surroundings {
    const { concord, namespace, owners } = this.options;
    return {
      url: concord.url,
      authority: this.authority,
      namespace,
      owners,
      cards: this.cards,
      consoleUrl: xid => concord.consoleUrl(xid),
    };
  }

  private readonly deferred = (entity: BackstageEntity) => ({
    entity,
    locationKey: this.getProviderName(),
  });

  private async mutate(
    mutation: Parameters<EntityProviderConnection['applyMutation']>[0],
  ): Promise<void> {
    if (!this.connection) throw new Error('the provider is not connected to a catalog');
    await this.connection.applyMutation(mutation);
  }
}

/** The filter of an export that selects the group of a part. */
function filterOf(xid: string): string {
  const [, plural = '', id] = xid.split('/');
  return `${plural}.${plural.slice(0, -1)}id=${id}`;
}

function bounded(filters: Iterable<string>): string[] {
  let room = LONGEST_FILTERS;
  return [...filters].slice(0, MOST_FILTERS).filter(filter => (room -= filter.length) >= 0);
}

function known({ entities, uses }: ReadPart): Part {
  return { refs: entities.map(entity => stringifyEntityRef(entity)), uses: new Set(uses) };
}

/** The entities of parts, each once: parts share channels and owners. */
function byRef(parts: ReadPart[]): Map<string, BackstageEntity> {
  const entities = parts.flatMap(part => part.entities);
  return new Map(entities.map(entity => [stringifyEntityRef(entity), entity]));
}

async function inBatches<T, R>(items: T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const done: R[] = [];
  for (let at = 0; at < items.length; at += AT_ONCE) {
    done.push(...(await Promise.all(items.slice(at, at + AT_ONCE).map(work))));
  }
  return done;
}
