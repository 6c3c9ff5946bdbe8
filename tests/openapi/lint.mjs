// Lints an OpenAPI document with every recommended rule; warnings count too.
//
// usage: node lint.mjs DIRECTORY DOCUMENT      DIRECTORY has the node_modules of package.json
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const [directory, document] = process.argv.slice(2);
const { createConfig, lintFromString } = createRequire(`${directory}/package.json`)('@redocly/openapi-core');

// Besides what is recommended.
const rules = Object.fromEntries([
  'no-invalid-parameter-examples',
  'no-invalid-schema-examples',
  'no-ambiguous-paths',
  'no-http-verbs-in-paths',
  'operation-singular-tag',
  'operation-tag-defined',
  'tag-description',
].map((rule) => [rule, 'error']));

const problems = await lintFromString({
  source: readFileSync(document, 'utf8'),
  absoluteRef: document,
  config: await createConfig({ extends: ['recommended-strict'], rules }),
});
for (const problem of problems) {
  const places = problem.location.map((place) => place.pointer).join(' ');
  console.log(`${problem.ruleId}: ${problem.message} ${places}`);
}
process.exitCode = problems.length === 0 ? 0 : 1;
