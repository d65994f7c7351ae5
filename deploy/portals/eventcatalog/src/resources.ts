/** Resources of EventCatalog made of a document of the catalog. Pure. */

import type { Channel, Domain, Event, Service, Team } from '@eventcatalog/sdk';
import { Card, Entity } from '../../reading/concord';
import {
  authorityName,
  Channel as CatalogChannel,
  channelKey,
  channelOf,
  documentText,
  formatType,
  listOf,
  localXid,
  shownAuthority,
  text,
  usageOf,
  webUrl,
} from '../../reading/entities';
import { hashedName, nameOf } from '../../reading/names';

/** Groups of the catalog have no versions, and EventCatalog shows none without. */
const UNVERSIONED = '1.0.0';
const MOST_BASES = 8;
const BASES = ['basemessage', 'basemessageuri', 'basemessageurl'];
const COLORS = { backgroundColor: 'gray', textColor: 'gray' };

const FILES = new Map([
  ['avro', 'schema.avsc'],
  ['protobuf', 'schema.proto'],
  ['xsd', 'schema.xsd'],
  ['jsonschema', 'schema.json'],
  ['jsonstructure', 'schema.json'],
]);

/** The mark of a generated resource: what generated it, and from which entity. */
export interface Mark {
  readonly source: string;
  readonly xid: string;
}

type Marked<T> = T & { 'x-concord': Mark };

export interface SchemaFile {
  readonly schema: string;
  readonly fileName: string;
}

export interface MarkedEvent {
  readonly event: Marked<Event>;
  readonly schema: SchemaFile | undefined;
}

export interface Resources {
  readonly teams: Team[];
  readonly domains: Marked<Domain>[];
  readonly services: Marked<Service>[];
  readonly channels: Marked<Channel>[];
  readonly events: MarkedEvent[];
}

export interface Surroundings {
  /** Names the generator in the marks of what it makes. */
  readonly source: string;
  /** The base URL of the node, which messages may name in references; empty if not known. */
  readonly url: string;
  /** The authority of what names no other one. */
  readonly authority: string;
  /** Owners that the configuration names, by authority. */
  readonly owners: ReadonlyMap<string, string>;
  /** What authorities say of themselves. */
  readonly cards: ReadonlyMap<string, Card>;
  consoleUrl(xid: string): string | undefined;
}

/** What a whole document of the catalog becomes in EventCatalog. */
export function resourcesOf(document: Entity, around: Surroundings): Resources {
  const of = new DocumentResources(document, around);
  return {
    teams: of.teams(),
    domains: Object.values<Entity>(document.messagegroups ?? {}).map(group => of.domain(group)),
    services: of.endpoints.map(endpoint => of.service(endpoint)),
    channels: of.channels(),
    events: of.messages().map(message => of.event(message)),
  };
}

class DocumentResources {
  readonly endpoints: Entity[];

  constructor(
    private readonly document: Entity,
    private readonly around: Surroundings,
  ) {
    this.endpoints = Object.values(document.endpoints ?? {});
  }

  /** All messages, each with the attributes of its default version. */
  messages(): Entity[] {
    const groups: Entity[] = [
      ...this.endpoints,
      ...Object.values<Entity>(this.document.messagegroups ?? {}),
    ];
    return groups.flatMap(group => messagesOf(group));
  }

  domain(group: Entity): Marked<Domain> {
    const users = this.endpoints.filter(endpoint => this.groupsOf(endpoint).includes(group));
    const items = messagesOf(group).map(message => ({ ...pointer(message), type: 'event' }));
    return {
      ...this.described(
        group,
        nameOf(group.messagegroupid, group.xid),
        UNVERSIONED,
        'A group of messages',
      ),
      services: users.map(endpoint => ({ id: serviceId(endpoint), version: UNVERSIONED })),
      resourceGroups: items.length ? [{ id: 'messages', title: 'Messages', items }] : [],
      markdown: '<NodeGraph />',
    };
  }

  service(endpoint: Entity): Marked<Service> {
    const { produces, consumes } = usageOf(endpoint);
    const channel = channelOf(endpoint);
    const protocol = text(endpoint.protocol, 60) ?? 'no named protocol';
    const at = channel && [{ id: channelId(channel), version: UNVERSIONED }];
    const groups = [endpoint, ...this.groupsOf(endpoint)];
    const messages = groups.flatMap(group => messagesOf(group)).map(pointer);
    return {
      ...this.described(endpoint, serviceId(endpoint), UNVERSIONED, `An endpoint of ${protocol}`),
      sends: produces ? messages.map(message => ({ ...message, ...(at && { to: at }) })) : [],
      receives: consumes ? messages.map(message => ({ ...message, ...(at && { from: at }) })) : [],
      markdown: '<NodeGraph />',
    };
  }

  event(message: Entity): MarkedEvent {
    const chain = this.withBases(message);
    const schema = this.schemaOf(chain);
    const { id, version } = pointer(message);
    const inherited = Object.assign(
      {},
      ...chain.map(({ name, description }) => defined({ name, description })).reverse(),
    );
    return {
      event: {
        ...this.described(
          { ...message, ...inherited },
          id,
          version,
          `A message of ${message.xid.split('/')[2]}`,
        ),
        ...(schema && { schemaPath: schema.fileName }),
        badges: [message.envelope, message.protocol]
          .flatMap(value => text(value, 60) ?? [])
          .map(content => ({ content, ...COLORS })),
        markdown: ['<NodeGraph />', ...(schema ? [viewerOf(schema)] : [])].join('\n\n'),
      },
      schema,
    };
  }

  /** The channels of all endpoints, each once. */
  channels(): Marked<Channel>[] {
    const found = new Map<string, Marked<Channel>>();
    for (const endpoint of this.endpoints) {
      const channel = channelOf(endpoint);
      if (!channel || found.has(channelId(channel))) continue;
      const servers = channel.servers.join(', ');
      found.set(channelId(channel), {
        id: channelId(channel),
        name: channel.address,
        version: UNVERSIONED,
        summary: servers ? `${channel.protocol} at ${servers}` : channel.protocol,
        address: channel.address,
        protocols: [channel.protocol.split('/')[0]!.toLowerCase()],
        owners: [this.ownerOf(endpoint)],
        markdown: '<NodeGraph />',
        'x-concord': { source: this.around.source, xid: endpoint.xid },
      });
    }
    return [...found.values()];
  }

  /** A team for each authority for which the configuration names no owner. */
  teams(): Team[] {
    const { document, around } = this;
    const groups = [document.endpoints, document.messagegroups].flatMap(each =>
      Object.values<Entity>(each ?? {}),
    );
    const authorities = new Set(groups.map(group => this.authorityOf(group)));
    return [...authorities]
      .filter(authority => !around.owners.has(authority))
      .map(authority => {
        const { name, summary, email } = shownAuthority(authority, around.cards.get(authority));
        const source = { provider: `concord:${around.source}`, id: authority };
        return {
          id: authorityName(authority),
          name,
          summary,
          ...(email && { email }),
          source,
          markdown: '',
        };
      });
  }

  private described(entity: Entity, id: string, version: string, otherwise: string) {
    const page = this.around.consoleUrl(entity.xid);
    const documentation = webUrl(entity.documentation);
    return {
      id,
      name: text(entity.name, 200) ?? entity.xid.split('/').pop(),
      version,
      summary: text(entity.description) ?? otherwise,
      owners: [this.ownerOf(entity)],
      ...(entity.deprecated && { deprecated: true }),
      ...(page && { editUrl: page }),
      attachments: [
        ...(page ? [{ url: page, title: 'Concord' }] : []),
        ...(documentation ? [{ url: documentation, title: 'Documentation' }] : []),
      ],
      'x-concord': { source: this.around.source, xid: entity.xid },
    };
  }

  private authorityOf(entity: Entity): string {
    return text(entity.authority, 2048) ?? this.around.authority;
  }

  private ownerOf(entity: Entity): string {
    const authority = this.authorityOf(entity);
    return this.around.owners.get(authority) ?? authorityName(authority);
  }

  private groupsOf(endpoint: Entity): Entity[] {
    const named = listOf(endpoint.messagegroups).map(reference => this.find(reference));
    return named.filter((group): group is Entity => group !== undefined);
  }

  /** A message and the messages that it is based on, itself first. */
  private withBases(message: Entity): Entity[] {
    const chain = [message];
    while (chain.length <= MOST_BASES) {
      const last = chain.at(-1)!;
      const found = this.find(BASES.map(name => last[name]).find(Boolean));
      if (!found || chain.some(each => each.xid === found.xid)) break;
      chain.push(defaultVersion(found));
    }
    return chain;
  }

  private schemaOf(chain: Entity[]): SchemaFile | undefined {
    for (const { dataschema, dataschemauri, dataschemaformat } of chain) {
      const found = dataschemauri ? this.find(dataschemauri) : undefined;
      const version = found?.versions ? defaultVersion(found) : found;
      const schema = version ? documentText(version) : documentText({ schema: dataschema });
      if (!schema) continue;
      const format = formatType(version?.format ?? dataschemaformat);
      return { schema, fileName: FILES.get(format) ?? 'schema.txt' };
    }
    return undefined;
  }

  /** The entity that a reference names, in this document. */
  private find(reference: unknown): Entity | undefined {
    const { url } = this.around;
    const isHere = url && typeof reference === 'string' && reference.startsWith(`${url}/`);
    const xid = localXid(isHere ? reference.slice(url.length) : reference);
    let found: unknown = xid && this.document;
    for (const name of xid?.split('/').slice(1) ?? []) {
      const isObject = typeof found === 'object' && found !== null && Object.hasOwn(found, name);
      found = isObject ? (found as Entity)[name] : undefined;
    }
    return typeof found === 'object' && found !== null ? found : undefined;
  }
}

function messagesOf(group: Entity): Entity[] {
  return Object.values<Entity>(group.messages ?? {}).map(defaultVersion);
}

/** A resource with the attributes of its default version, under the xid of the resource. */
function defaultVersion(resource: Entity): Entity {
  const versions: Record<string, Entity> = resource.versions ?? {};
  const id = resource.meta?.defaultversionid;
  const version = versions[id] ?? Object.values(versions).find(each => each.isdefault);
  return { ...version, ...resource };
}

function pointer(message: Entity): { id: string; version: string } {
  return {
    id: hashedName(message.messageid, message.xid),
    version: semanticVersion(message.versionid),
  };
}

/** A version id as EventCatalog takes versions: `2` is 2.0.0; ids of other forms are 1.0.0. */
export function semanticVersion(id: unknown): string {
  const [, major, minor = '0', patch = '0', rest = ''] =
    /^v?(\d{1,9})(?:\.(\d{1,9})(?:\.(\d{1,9})([-+][0-9A-Za-z.+-]{1,60})?)?)?$/.exec(String(id)) ??
    [];
  if (major === undefined) return UNVERSIONED;
  return `${Number(major)}.${Number(minor)}.${Number(patch)}${rest}`;
}

function serviceId(endpoint: Entity): string {
  return hashedName(endpoint.endpointid, endpoint.xid);
}

function channelId(channel: CatalogChannel): string {
  return hashedName(channel.address, channelKey(channel));
}

function viewerOf({ fileName }: SchemaFile): string {
  const isJson = fileName === 'schema.json';
  return isJson ? `<SchemaViewer file="${fileName}" />` : `<Schema file="${fileName}" />`;
}

function defined(values: Entity): Entity {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
}
