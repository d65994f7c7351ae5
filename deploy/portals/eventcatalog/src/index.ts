/** The generator as EventCatalog calls it, for the directory that `PROJECT_DIR` names, or this one. */

import { generate, Options } from './generator';

export { generate, Options, Outcome } from './generator';

export default async function concord(_config: unknown, options: Options): Promise<void> {
  const directory = process.env.PROJECT_DIR ?? process.cwd();
  const { written, removed, kept } = await generate(directory, options ?? {});
  console.log(`Concord: ${written} resources written, ${removed} removed`);
  if (kept.length) console.warn(`Concord: left as others made them: ${kept.join(', ')}`);
}
