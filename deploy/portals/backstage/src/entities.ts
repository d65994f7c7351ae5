/** Entities of Backstage made of endpoints, message groups and schemas. Pure. */

import { Entity as BackstageEntity, stringifyEntityRef } from '@backstage/catalog-model';
import { Card, Entity } from '../../reading/concord';
import {
  authorityName,
  channelKey,
  channelOf,
  Channel,
  documentText,
  formatType,
  listOf,
  shownAuthority,
  text,
  usageOf,
  webUrl,
} from '../../reading/entities';
import { hashedName, nameOf } from '../../reading/names';

const LARGEST_DEFINITION = 1024 * 1024;
const TAG = /^[a-z0-9+#]+(-[a-z0-9+#]+)*$/;

/** What all entities of one provider share. */
export interface Surroundings {
  /** The base URL of the node. */
  readonly url: string;
  /** The authority of what names no other one. */
  readonly authority: string;
  readonly namespace: string;
  /** Owners that the configuration names, by authority. */
  readonly owners: ReadonlyMap<string, string>;
  /** What authorities say of themselves. */
  readonly cards: ReadonlyMap<string, Card>;
  consoleUrl(xid: string): string;
}

/** The definition of an API. */
export interface Definition {
  readonly type: string;
  readonly text: string;
}

/** The ids of an endpoint, a message group or a schema: the parts of the catalog that are mapped. */
const PART = /^\/(?:(endpoints|messagegroups)\/([^/]+)|(schemagroups)\/([^/]+)\/schemas\/([^/]+))/;

/** The xid of the mapped part that an entity belongs to; `undefined` if it belongs to none. */
export function partOf(xid: string): string | undefined {
  return PART.exec(xid)?.[0];
}

/** An endpoint as a component, with its channel, its owner, and the API of its own messages. */
export function endpointEntities(
  endpoint: Entity,
  uses: readonly string[],
  own: Definition | undefined,
  around: Surroundings,
): BackstageEntity[] {
  const { produces, consumes } = usageOf(endpoint);
  const api = own && apiOf(endpoint, own, around);
  const apis = [...uses, ...(api ? [endpoint.xid] : [])]
    .filter(xid => apiName(xid) && (xid === endpoint.xid || !xid.startsWith('/endpoints/')))
    .map(xid => `api:${around.namespace}/${apiName(xid)}`);
  const channel = channelOf(endpoint);
  const resource = channel && resourceOf(channel, endpoint, around);
  const component = {
    ...described('Component', nameOf(endpoint.endpointid, endpoint.xid), endpoint, around),
    spec: {
      type: 'endpoint',
      lifecycle: lifecycleOf(endpoint),
      owner: ownerOf(endpoint, around),
      ...(produces && apis.length && { providesApis: apis }),
      ...(consumes && apis.length && { consumesApis: apis }),
      ...(resource && { dependsOn: [stringifyEntityRef(resource)] }),
    },
  };
  return [component, api, resource, ...groupsOf(endpoint, around)].filter(isEntity);
}

/** A message group as an API. */
export function messageGroupEntities(
  group: Entity,
  definition: Definition,
  around: Surroundings,
): BackstageEntity[] {
  return [apiOf(group, definition, around), ...groupsOf(group, around)];
}

/** A schema, which is shown by its default version, as an API. */
export function schemaEntities(schema: Entity, around: Surroundings): BackstageEntity[] {
  const document = documentText(schema);
  const elsewhere = text(schema.schemaurl, 2048);
  const without = elsewhere ? `The document is at ${elsewhere}` : 'The schema has no document.';
  const definition = { type: formatType(schema.format), text: document || without };
  return [apiOf(schema, definition, around), ...groupsOf(schema, around)];
}

function apiOf(entity: Entity, { type, text: content }: Definition, around: Surroundings) {
  const bytes = Buffer.byteLength(content);
  const tooLarge = `The document has ${bytes} bytes: ${around.consoleUrl(entity.xid)}`;
  return {
    ...described('API', apiName(entity.xid)!, entity, around),
    spec: {
      type,
      lifecycle: lifecycleOf(entity),
      owner: ownerOf(entity, around),
      definition: bytes > LARGEST_DEFINITION ? tooLarge : content,
    },
  };
}

/** The name of the API of a part. Only message groups, the most read, have plain ones. */
function apiName(xid: string): string | undefined {
  const [part, plural, id, , schemaGroup, schema] = PART.exec(xid) ?? [];
  if (part === undefined) return undefined;
  if (plural === 'messagegroups') return nameOf(id!, part);
  return hashedName(plural ? id! : `${schemaGroup}.${schema}`, part);
}

function resourceOf(channel: Channel, endpoint: Entity, around: Surroundings): BackstageEntity {
  const key = channelKey(channel);
  const servers = channel.servers.join(', ');
  return {
    apiVersion: 'backstage.io/v1alpha1',
    kind: 'Resource',
    metadata: {
      name: hashedName(channel.address, key),
      namespace: around.namespace,
      title: channel.address,
      description: servers ? `${channel.protocol} at ${servers}` : channel.protocol,
      annotations: located(around.url),
    },
    spec: {
      type: `${tagOf(channel.protocol.split('/')[0]!) ?? 'message'}-channel`,
      owner: ownerOf(endpoint, around),
    },
  };
}

function described(kind: string, name: string, entity: Entity, around: Surroundings) {
  const page = around.consoleUrl(entity.xid);
  const documentation = webUrl(entity.documentation);
  const tag = tagOf(entity.protocol ?? entity.format);
  return {
    apiVersion: 'backstage.io/v1alpha1',
    kind,
    metadata: {
      name,
      namespace: around.namespace,
      title: text(entity.name, 200) ?? entity.xid.split('/').pop(),
      description: text(entity.description),
      annotations: {
        ...located(`${around.url}${entity.xid}`),
        'backstage.io/view-url': page,
        'concord/xid': entity.xid,
        'concord/authority': authorityOf(entity, around),
      },
      links: [
        { url: page, title: 'Concord' },
        ...(documentation ? [{ url: documentation, title: 'Documentation' }] : []),
      ],
      tags: tag ? [tag] : [],
    },
  };
}

function located(url: string): Record<string, string> {
  const location = `url:${url}`;
  return {
    'backstage.io/managed-by-location': location,
    'backstage.io/managed-by-origin-location': location,
  };
}

function lifecycleOf(entity: Entity): string {
  return entity.deprecated ? 'deprecated' : 'production';
}

function tagOf(value: unknown): string | undefined {
  const tag = (text(value, 63) ?? '')
    .toLowerCase()
    .replace(/[^a-z0-9+#]+/g, '-')
    .replace(/^-|-$/g, '');
  return TAG.test(tag) ? tag : undefined;
}

function authorityOf(entity: Entity, around: Surroundings): string {
  return text(entity.authority, 2048) ?? around.authority;
}

function ownerOf(entity: Entity, around: Surroundings): string {
  const authority = authorityOf(entity, around);
  return around.owners.get(authority) ?? `group:${around.namespace}/${authorityName(authority)}`;
}

/** The group that stands for an authority, unless the configuration names an owner for it. */
function groupsOf(entity: Entity, around: Surroundings): BackstageEntity[] {
  const authority = authorityOf(entity, around);
  if (around.owners.has(authority)) return [];
  const { name, summary, email, url } = shownAuthority(authority, around.cards.get(authority));
  return [
    {
      apiVersion: 'backstage.io/v1alpha1',
      kind: 'Group',
      metadata: {
        name: authorityName(authority),
        namespace: around.namespace,
        title: name,
        description: summary,
        annotations: { ...located(around.url), 'concord/authority': authority },
        links: url ? [{ url, title: 'Catalog' }] : [],
      },
      spec: {
        type: 'catalog-authority',
        profile: { displayName: name, ...(email && { email }) },
        children: [],
      },
    },
  ];
}

function isEntity(value: unknown): value is BackstageEntity {
  return value !== undefined;
}

/** Whether an endpoint has messages of its own, beside those of its message groups. */
export function hasOwnMessages(endpoint: Entity): boolean {
  return Number(endpoint.messagescount ?? 0) > 0;
}

/** The message groups that an endpoint names, which are used even if they are not there yet. */
export function namedMessageGroups(endpoint: Entity): string[] {
  return listOf(endpoint.messagegroups)
    .map(reference => (typeof reference === 'string' ? partOf(reference.replace(/^#/, '')) : ''))
    .filter((xid): xid is string => Boolean(xid));
}
