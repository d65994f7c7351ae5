// Parses AsyncAPI documents, and prints the errors of each as a JSON array of arrays of texts.

import { readFileSync } from "node:fs";

import { Parser } from "@asyncapi/parser";

const parser = new Parser();
const found = [];
for (const file of process.argv.slice(2)) {
  const { document, diagnostics } = await parser.parse(readFileSync(file, "utf8"));
  const errors = diagnostics.filter((each) => each.severity === 0);
  const texts = errors.map((each) => `${each.path.join("/")}: ${each.message}`);
  found.push(document === undefined && texts.length === 0 ? ["no document"] : texts);
}
console.log(JSON.stringify(found));
