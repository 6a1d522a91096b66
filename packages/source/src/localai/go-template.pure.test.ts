import fc from 'fast-check'
import { FleetError } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { parseTemplate } from './go-template.pure.ts'
import { renderTemplate, TemplateStruct } from './render-template.pure.ts'

const data = {
  Name: 'Ann',
  Empty: '',
  Zero: 0,
  Two: 2,
  List: ['a', 'b'],
  None: [],
  Nothing: null,
  Map: { type: 'object', b: { x: '<1>' }, a: [1, true, null] },
  Call: [
    new TemplateStruct({ ID: 'c1', Inner: new TemplateStruct({ Name: 'f' }, [['name', 'f']]) }, [
      ['index', 0],
      ['id', 'c1'],
      ['function', new TemplateStruct({ Name: 'f' }, [['name', 'f']])],
    ]),
  ],
}
const render = (text: string): string => renderTemplate(parseTemplate(text), data)

it.each<[string, string]>([
  ['plain { text } }}', 'plain { text } }}'],
  ['a {{.Name}} b', 'a Ann b'],
  ['a  {{- .Name -}}  b', 'aAnnb'],
  ['a\n {{-.Name}}', 'aAnn'],
  ['{{/* note }} */}}x{{- /* y */ -}} z', 'xz'],
  ['{{if .Name}}y{{else}}n{{end}}{{if .Empty}}y{{else}}n{{end}}', 'yn'],
  ['{{if .Zero}}a{{else if .None}}b{{else if eq .Name "x" "Ann"}}c{{else}}d{{end}}', 'c'],
  ['{{if not .Nothing}}a{{end}}{{if and .Name .Zero}}b{{end}}{{if or .Empty .Name}}c{{end}}', 'ac'],
  ['{{range .List}}[{{.}}]{{end}}{{range .None}}x{{else}}none{{end}}', '[a][b]none'],
  ['{{range $i, $v := .List}}{{$i}}{{$v}}{{$.Name}} {{end}}', '0aAnn 1bAnn '],
  ['{{range $k, $v := .Map}}{{$k}} {{end}}{{range $v := .List}}{{$v}}{{end}}', 'a b type ab'],
  ['{{$t := ""}}{{range .List}}{{$t = print $t . " "}}{{end}}[{{$t}}]', '[a b ]'],
  ['{{if $n := .Name}}{{$n}}{{end}}', 'Ann'],
  ['{{toJson .Map}}', String.raw`{"a":[1,true,null],"b":{"x":"\u003c1\u003e"},"type":"object"}`],
  ['{{toJson .Call}}', '[{"index":0,"id":"c1","function":{"name":"f"}}]'],
  ['{{range .Call}}{{.ID}} {{.Inner.Name}}{{end}}', 'c1 f'],
  ['{{index .Map "type"}} {{index .List 1}} {{(index .Map "b").x}} {{index .Map "b" "x"}}', 'object b <1> <1>'],
  ['{{`{{"raw": 1}}`}} {{"q\\"\\n\\u00e9"}}', '{{"raw": 1}} q"\né'],
  ['{{len .List}} {{len "é"}} {{len .Map}}', '2 2 3'],
  ['{{lt .Two 3}} {{le 2 .Two}} {{gt "b" "a"}} {{ge 1 2}} {{ne .Name "x"}}', 'true true true false true'],
  ['{{print 1 2 "a" "b" 3 true}}', '1 2ab3 true'],
  ['{{.Name | print "x"}} {{.Map.missing}} {{.List}} {{.Map.b}}', 'xAnn <no value> [a b] map[x:<1>]'],
  ['{{1000000}} {{1.5}} {{nil | eq .Nothing}}', '1e+06 1.5 true'],
])('%j renders as %j', (text, want) => expect(render(text)).toBe(want))

describe('a template is refused', () => {
  it.each<[string, string]>([
    ['{{add1 .X}}', 'the template uses add1, which is not known here; with a GGUF model leave "template" out and its own is used'],
    ['{{with .X}}{{end}}', 'the template uses with, which'],
    ['{{.X | upper}}', 'the template uses upper, which'],
    ['a\n{{if .X}}', 'error in line 2: {{if}} is not closed'],
    ['{{end}}', 'unexpected {{end}}'],
    ['{{range .X}}{{else}}{{else}}{{end}}', '{{range}} is not closed'],
    ['{{.X', 'an action is not closed'],
    ['{{/* x', 'a comment is not closed'],
    ['{{$x}}', 'the variable $x is not defined'],
    ['{{if $x := 1}}{{end}}{{$x}}', 'the variable $x is not defined'],
    ['{{.A .B}}', 'only a function takes arguments'],
    ['{{}}', 'a value is missing'],
    ['{{eq len 1}}', 'put len and its arguments into parentheses'],
    ['{{(eq 1 1}}', 'expected )'],
    ['{{"a}}', 'unexpected "\\""'],
    ['{{if .A}}'.repeat(100), 'more than 64 actions inside each other'],
    ['x'.repeat(300_000), 'more than 262144 characters'],
  ])('%j', (text, message) => {
    expect(() => parseTemplate(text)).toThrow(FleetError)
    expect(() => parseTemplate(text)).toThrow(message)
  })
})

it.each<[string, string]>([
  ['{{.Missing}}', 'there is no field .Missing'],
  ['{{.Name.X}}', 'a text has no field .X'],
  ['{{index .List "name"}}', 'a list has no element "name"'],
  ['{{index .List 7}}', 'a list of 2 has no element 7'],
  ['{{eq .Name 1}}', 'cannot compare a text with a number'],
  ['{{range .Name}}{{end}}', 'range cannot iterate over a text'],
  ['{{range .Many}}{{range $.Many}}x{{end}}{{end}}', 'too many steps'],
  ['{{range .Many}}{{$.Long}}{{end}}', 'more than 33554432 characters'],
])('%s cannot be rendered', (text, message) => {
  const large = { ...data, Many: Array.from({ length: 2_000 }, () => 1), Long: 'x'.repeat(100_000) }
  expect(() => renderTemplate(parseTemplate(text), large)).toThrow(message)
})

const piece = fc.constantFrom(
  ...[
    '{{',
    '}}',
    '{{-',
    '-}}',
    'if',
    'else',
    'end',
    'range',
    ' ',
    '\n',
    '.',
    '.A',
    '$x',
    ':=',
    '=',
    '|',
    '(',
    ')',
    '"',
    '`',
    '\\',
    '/*',
    '*/',
  ],
  ...['eq', 'index', 'toJson', '1', '-', ',', 'é', 'x'],
)

it('any text is rendered or refused, never anything else', () => {
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => {
      try {
        renderTemplate(parseTemplate(pieces.join('')), { A: [{ x: 1 }] })
      } catch (error) {
        expect(error).toBeInstanceOf(FleetError)
      }
    }),
    { numRuns: 2_000 },
  )
})

it('a text without actions is rendered unchanged, and a value too', () => {
  fc.assert(
    fc.property(
      fc.string().filter((text) => !text.includes('{{')),
      fc.string(),
      (text, value) => {
        expect(renderTemplate(parseTemplate(text), {})).toBe(text)
        expect(renderTemplate(parseTemplate('<{{.A}}>'), { A: value })).toBe(`<${value}>`)
        expect(renderTemplate(parseTemplate(`{{${JSON.stringify('é "x" \n')}}}`), {})).toBe('é "x" \n')
      },
    ),
  )
})

it('JSON of any value is read back as the same value', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
      expect(JSON.parse(renderTemplate(parseTemplate('{{toJson .A}}'), { A: value }))).toEqual(JSON.parse(JSON.stringify(value)))
    }),
  )
})
