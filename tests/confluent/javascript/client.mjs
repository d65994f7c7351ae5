// Does what a document on the standard input asks of the registry, by its client for JavaScript,
// and writes a document with what came of it.

import { SchemaRegistry } from '@kafkajs/confluent-schema-registry'
import { json } from 'node:stream/consumers'

const { host, register = [], decode = [] } = await json(process.stdin)
const registry = new SchemaRegistry({ host, retry: { retries: 0 } })
const answer = { registered: [], decoded: [] }

async function attempt(act) {
  try {
    return await act()
  } catch (error) {
    return { error: error.name, status: error.status, message: error.message }
  }
}

for (const { subject, value, compatibility, ...schema } of register) {
  answer.registered.push(
    await attempt(async () => {
      const { id } = await registry.register(schema, { subject, compatibility })
      return {
        id,
        latest: await registry.getLatestSchemaId(subject),
        first: await registry.getRegistryId(subject, 1),
        // It asks for the text alone, which nobody can resolve without its references.
        known: schema.references || (await registry.getRegistryIdBySchema(subject, schema)),
        message: value && (await registry.encode(id, value)).toString('base64'),
      }
    }),
  )
}
for (const message of decode) {
  answer.decoded.push(await attempt(() => registry.decode(Buffer.from(message, 'base64'))))
}
process.stdout.write(JSON.stringify(answer))
