/** Reads a Concord node over HTTP: entities in pages, references, and the feed of changes. */

import { setTimeout as sleep } from 'node:timers/promises';

export type Entity = Record<string, any>;

/** A change of the feed: the xid of an entity that was written or deleted. */
export interface Change {
  readonly xid: string;
}

export interface ConcordOptions {
  /** The base URL of the node. */
  readonly url: string;
  /** A bearer token, which is sent to this node only. */
  readonly token?: string;
}

/** Who stands behind an authority, in the words of that authority, which nothing proves. */
export interface Card {
  readonly name?: string;
  readonly contact?: string;
  readonly url?: string;
}

/** An answer that is an error, or no answer of a node. `status` is 0 if there was no answer. */
export class ConcordError extends Error {
  constructor(
    readonly status: number,
    message: string,
    /** The name of the problem, as `not_found`. */
    readonly problem = '',
    readonly retryAfterSeconds?: number,
  ) {
    super(message);
    this.name = 'ConcordError';
  }

  /** Whether there is no such entity, collection or operation; a node says 400 of the last two. */
  get isNotFound(): boolean {
    return this.status === 404 || (this.status === 400 && this.problem === 'unknown_group_type');
  }

  /** Whether the feed no longer goes on from a cursor, so that everything has to be read again. */
  get isCursorGone(): boolean {
    return this.status === 410;
  }

  get isRetryable(): boolean {
    return [0, 429, 502, 503, 504].includes(this.status);
  }
}

const ATTEMPTS = 4;
const SECONDS = 60;
const LONGEST_RETRY_AFTER = 30;
const LARGEST_ANSWER = 256 * 1024 * 1024;
const PAGE = 100;
/** The longest wait of the feed for a change, which nodes bound to 30. */
const WAIT_SECONDS = 20;
const JSON_TYPE = 'application/json';
const DEEPEST = 5;

type Params = ReadonlyArray<readonly [string, string]>;

/** The client of one node. All calls are reads, which are repeated after a failure that may pass. */
export class Concord {
  readonly url: string;
  private readonly token: string | undefined;

  /** @throws TypeError if the URL is none of http or https, or contains a password. */
  constructor({ url, token }: ConcordOptions) {
    const parsed = new URL(url);
    if (!/^https?:$/.test(parsed.protocol) || parsed.username || parsed.password) {
      throw new TypeError('the URL of a node begins with http:// or https://, without a password');
    }
    this.url = parsed.href.replace(/[?#].*$/, '').replace(/\/+$/, '');
    this.token = token;
  }

  /** The page of the console about an entity. */
  consoleUrl(xid: string): string {
    return `${this.url}/console/e${encodeURI(xid)}`;
  }

  /** The URI of the authority that the node is, which owns what has no other authority. */
  async authority(signal?: AbortSignal): Promise<string> {
    const { authorities } = await this.json('/-/authorities', [], signal);
    return String(authorities.find((each: Entity) => each.isown).authority);
  }

  /** The cards that authorities have told the node. */
  async cards(signal?: AbortSignal): Promise<Map<string, Card>> {
    const answer = await this.json('/-/authorities', [], signal);
    const told = answer.authorities.filter((each: Entity) => each.card);
    return new Map(told.map((each: Entity) => [String(each.authority), each.card]));
  }

  /** The JSON of the entity at a path; `undefined` if there is none. */
  async entity(path: string, params: Params, signal?: AbortSignal): Promise<Entity | undefined> {
    return this.json(path, params, signal).catch(ifNotFound(undefined));
  }

  /** All entities of a collection, a page at a time; none if the model has no such collection. */
  async *pages(path: string, params: Params, signal?: AbortSignal): AsyncGenerator<Entity[]> {
    let next: URL | undefined = this.at(path, [['limit', String(PAGE)], ...params]);
    while (next) {
      const answer: Answer | undefined = await this.get(next, JSON_TYPE, signal).catch(
        ifNotFound(undefined),
      );
      if (!answer) return;
      yield Object.values(answer.json());
      next = this.following(answer, next);
    }
  }

  /** The xids of all that an entity refers to, over at most five steps, sorted. */
  async targets(xid: string, signal?: AbortSignal): Promise<string[]> {
    const params: Params = [
      ['of', xid],
      ['direction', 'from'],
      ['depth', String(DEEPEST)],
    ];
    const answer = await this.json('/-/references', params, signal).catch(
      ifNotFound({ references: [] } as Entity),
    );
    const targets = answer.references.map((each: Entity) => each.target).filter(Boolean);
    return [...new Set<string>(targets)].sort();
  }

  /**
   * A document of the groups that filters select.
   *
   * @returns its media type and text: that of `accept` if the node knows it, else JSON.
   */
  async document(filters: string[], accept: string, signal?: AbortSignal): Promise<Document> {
    const params = filters.map(filter => ['filter', filter] as const);
    const answer = await this.get(
      this.at('/export', params),
      `${accept}, ${JSON_TYPE};q=0.5`,
      signal,
    );
    return { mediaType: answer.mediaType, text: answer.text };
  }

  /** The whole catalog as a document, in one consistent state. */
  async export(signal?: AbortSignal): Promise<Entity> {
    return this.json('/export', [], signal);
  }

  /** The cursor at the end of the feed: later changes come after it. Needs the role replicator. */
  async cursor(signal?: AbortSignal): Promise<string> {
    const nothing: Params = [
      ['format', 'csv'],
      ['from', '0'],
      ['to', '0'],
    ];
    const answer = await this.get(this.at('/replication/digests', nothing), '*/*', signal);
    const cursor = answer.headers.get('Concord-Cursor');
    if (!cursor) throw new ConcordError(0, `${this.url} told no cursor: is it a Concord node?`);
    return cursor;
  }

  /**
   * The changes after a cursor. If there are none, the node waits for some twenty seconds.
   *
   * @throws ConcordError with `isCursorGone` if the feed no longer reaches back to the cursor.
   */
  async changes(
    after: string,
    signal?: AbortSignal,
  ): Promise<{ changes: Change[]; cursor: string }> {
    const params: Params = [
      ['after', after],
      ['wait', String(WAIT_SECONDS)],
    ];
    const answer = await this.get(this.at('/replication/changes', params), '*/*', signal);
    const lines = answer.text.trimEnd().split('\n').map(parsed);
    const cursor = lines.pop()?.cursor;
    if (typeof cursor !== 'string') throw new ConcordError(0, 'the answer of the feed was cut');
    return { changes: lines.map(line => ({ xid: String(line.xid) })), cursor };
  }

  private at(path: string, params: Params): URL {
    // After the host, "@" and the like would name another one, which would get the token.
    if (!path.startsWith('/')) throw new ConcordError(0, 'the node named a path without a slash');
    const url = new URL(this.url + encodeURI(path));
    for (const [name, value] of params) url.searchParams.append(name, value);
    return url;
  }

  private async json(path: string, params: Params, signal?: AbortSignal): Promise<Entity> {
    return (await this.get(this.at(path, params), JSON_TYPE, signal)).json();
  }

  private following(answer: Answer, last: URL): URL | undefined {
    const [, link] = /<([^>]*)>\s*;\s*rel="?next"?/.exec(answer.headers.get('Link') ?? '') ?? [];
    if (!link) return undefined;
    // A proxy may show the node under another origin, and the token is only for this one.
    const query = new URL(link, last).search;
    if (query === last.search) throw new ConcordError(0, `${last.pathname} has a page without end`);
    return Object.assign(new URL(last), { search: query });
  }

  private async get(url: URL, accept: string, signal?: AbortSignal): Promise<Answer> {
    for (let attempt = 1; ; attempt += 1) {
      signal?.throwIfAborted();
      try {
        return await this.once(url, accept, signal);
      } catch (error) {
        const failed = signal?.aborted ? error : asConcordError(error, url);
        if (!(failed instanceof ConcordError) || !failed.isRetryable || attempt === ATTEMPTS) {
          throw failed;
        }
        const seconds = failed.retryAfterSeconds ?? 2 ** (attempt - 3);
        await sleep(Math.min(seconds, LONGEST_RETRY_AFTER) * 1000, undefined, { signal });
      }
    }
  }

  private async once(url: URL, accept: string, signal?: AbortSignal): Promise<Answer> {
    const timeout = AbortSignal.timeout(SECONDS * 1000);
    const response = await fetch(url, {
      headers: { accept, ...(this.token && { authorization: `Bearer ${this.token}` }) },
      redirect: 'error',
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    });
    const text = await bounded(response);
    if (response.ok) return new Answer(response.headers, text);
    const { type, title } = problemOf(text);
    const retryAfter = Number(response.headers.get('Retry-After') ?? NaN);
    throw new ConcordError(
      response.status,
      `GET ${url.pathname}: ${response.status} ${title}`.trimEnd(),
      type.split(/[#:]/).pop(),
      Number.isFinite(retryAfter) ? retryAfter : undefined,
    );
  }
}

export interface Document {
  readonly mediaType: string;
  readonly text: string;
}

class Answer {
  constructor(
    readonly headers: Headers,
    readonly text: string,
  ) {}

  get mediaType(): string {
    return (this.headers.get('Content-Type') ?? '').split(';')[0]!.trim().toLowerCase();
  }

  json(): Entity {
    return parsed(this.text);
  }
}

function parsed(text: string): Entity {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new ConcordError(0, 'the answer is no JSON: is this the URL of a Concord node?');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new ConcordError(0, 'the answer is no JSON object');
  }
  return value;
}

async function bounded(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.length;
    if (size > LARGEST_ANSWER)
      throw new ConcordError(413, `an answer has over ${LARGEST_ANSWER} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** The problem document of an answer; empty texts if it is none. */
function problemOf(text: string): { type: string; title: string } {
  try {
    const { type = '', title = '' } = JSON.parse(text);
    return { type: String(type), title: String(title).slice(0, 300) };
  } catch {
    return { type: '', title: '' };
  }
}

function asConcordError(error: unknown, url: URL): unknown {
  if (error instanceof ConcordError || !(error instanceof Error)) return error;
  const cause = error.cause instanceof Error ? `: ${error.cause.message}` : '';
  return new ConcordError(0, `GET ${url.origin}${url.pathname}: ${error.message}${cause}`);
}

function ifNotFound<T>(value: T): (error: unknown) => T {
  return error => {
    if (error instanceof ConcordError && error.isNotFound) return value;
    throw error;
  };
}
