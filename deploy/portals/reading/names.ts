/** Names of entities in portals, which allow fewer characters than a catalog, and shorter names. */

import { createHash } from 'node:crypto';

const LONGEST = 63;
const HASHED = /-[0-9a-f]{8}$/;
/** Letters, digits, and single separators between them, as Backstage demands of names. */
const PLAIN = /^[A-Za-z0-9]+(?:[-_.][A-Za-z0-9]+)*$/;

/**
 * The name of a thing that is named by one id: the id, if it fits; else with a hash of `key`.
 *
 * Different ids have different names as long as no id is allowed to look hashed.
 *
 * @param key tells things apart which might have the same id, such as an xid.
 */
export function nameOf(id: string, key: string): string {
  const fits = PLAIN.test(id) && id.length <= LONGEST && !HASHED.test(id);
  return fits ? id : hashedName(id, key);
}

/** A name with the readable part of a text and a hash of `key`, which alone makes it unique. */
export function hashedName(text: string, key: string): string {
  const hash = createHash('sha256').update(key).digest('hex').slice(0, 8);
  const parts = text.slice(0, 500).match(/[A-Za-z0-9]+(?:[-_.][A-Za-z0-9]+)*/g) ?? [];
  const readable = parts
    .join('-')
    .slice(0, LONGEST - 9)
    .replace(/[-_.]+$/, '');
  return readable ? `${readable}-${hash}` : `x-${hash}`;
}
