/** What portals show of entities of the default model: texts, addresses, authorities, documents. */

import { Card, Entity } from './concord';
import { nameOf } from './names';

const LONGEST_TEXT = 4000;

/** A text of the catalog as one bounded text without control characters; `undefined` if empty. */
export function text(value: unknown, longest = LONGEST_TEXT): string | undefined {
  if (typeof value !== 'string') return undefined;
  const clean = value.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, ' ').trim();
  return clean ? [...clean].slice(0, longest).join('') : undefined;
}

/** A value as a URL that a browser may safely open; `undefined` for any other. */
export function webUrl(value: unknown): string | undefined {
  if (typeof value !== 'string' || value.length > 2048) return undefined;
  try {
    const url = new URL(value);
    return /^https?:$/.test(url.protocol) ? url.href : undefined;
  } catch {
    return undefined;
  }
}

/** The xid within the node that a reference of an attribute names; `undefined` if elsewhere. */
export function localXid(reference: unknown): string | undefined {
  if (typeof reference !== 'string') return undefined;
  const path = reference.replace(/^#/, '');
  return path.startsWith('/') && !path.startsWith('//') ? path : undefined;
}

/** The list of an attribute; empty if it is no list. */
export function listOf(value: unknown): any[] {
  return Array.isArray(value) ? value : [];
}

export interface Usage {
  readonly produces: boolean;
  readonly consumes: boolean;
}

/** Whether applications at an endpoint produce its messages, consume them, or both. */
export function usageOf(endpoint: Entity): Usage {
  const usage = listOf(endpoint.usage);
  return {
    produces: usage.includes('producer'),
    consumes: usage.includes('consumer') || usage.includes('subscriber'),
  };
}

/** Where the messages of an endpoint flow: a topic, queue, subject or node at servers. */
export interface Channel {
  readonly protocol: string;
  readonly address: string;
  readonly servers: string[];
}

const ADDRESSES = ['topic', 'queue', 'subject', 'node', 'address', 'topicfilter', 'exchange'];

/** The channel of an endpoint; `undefined` if it names none. */
export function channelOf(endpoint: Entity): Channel | undefined {
  const options = endpoint.protocoloptions;
  if (typeof options !== 'object' || options === null) return undefined;
  const address = ADDRESSES.map(name => text(options[name], 500)).find(Boolean);
  if (!address) return undefined;
  const servers = listOf(options.endpoints).flatMap(server => [
    ...listOf(server?.['bootstrap.servers']),
    server?.uri,
  ]);
  return {
    protocol: text(endpoint.protocol, 100) ?? 'unknown',
    address,
    servers: [...new Set(servers.flatMap(server => text(server, 500) ?? []))].sort(),
  };
}

/** The identity of a channel: endpoints with equal keys share a channel. */
export function channelKey({ protocol, address, servers }: Channel): string {
  return JSON.stringify([protocol.split('/')[0]!.toLowerCase(), address, servers]);
}

/** The document of a version as text; `undefined` if the catalog has none, or only its URL. */
export function documentText(version: Entity): string | undefined {
  if (typeof version.schemabase64 === 'string') {
    return Buffer.from(version.schemabase64, 'base64').toString('utf8');
  }
  if (typeof version.schema === 'string') return version.schema;
  return version.schema === undefined ? undefined : JSON.stringify(version.schema, null, 2);
}

const TYPES = new Map([
  ['xmlschema', 'xsd'],
  ['xsd', 'xsd'],
]);

/** The format of a schema without its version, in lower case: `avro`, `jsonschema`, `protobuf`. */
export function formatType(format: unknown): string {
  const family = (text(format, 100) ?? '')
    .split('/')[0]!
    .toLowerCase()
    .replace(/[^a-z0-9]/g, '');
  return TYPES.get(family) ?? (family || 'schema');
}

/** An authority as people are shown it. Its card is a text of others. */
export interface Shown {
  readonly name: string;
  readonly summary: string;
  readonly email: string | undefined;
  readonly url: string | undefined;
}

const EMAIL = /^[^\s@<>"]{1,64}@[A-Za-z0-9.-]{1,190}$/;

export function shownAuthority(authority: string, card: Card | undefined): Shown {
  const contact = text(card?.contact, 200);
  return {
    name: text(card?.name, 200) ?? authority,
    summary: `The catalog ${authority}${contact ? `; contact: ${contact}` : ''}`,
    email: contact && EMAIL.test(contact) ? contact : undefined,
    url: webUrl(card?.url),
  };
}

/** The name of an authority, which is the URI of a catalog: the group or team of its owners. */
export function authorityName(authority: string): string {
  return nameOf(authority.replace(/^https:\/\//, ''), authority);
}
