// Writes the commands in messages as they can be run here. Texts name a command as `muster …` in backticks or double quotes; in a
// clone there is no program of that name, and flags of this command line that name the controller belong to the next one too.
import { shellWord } from './text.ts'

export interface CommandWriter {
  /** The program: `muster`, or the npm script of a clone. */
  readonly program: string
  /** Replaces the commands in a text. */
  write(text: string): string
  /** The same for the help of a command, with its usage and its examples. */
  writeHelp(text: string): string
}

export interface CommandWriterOptions {
  readonly env: Readonly<Record<string, string | undefined>>
  /** The words of this command line after the program. */
  readonly args: readonly string[]
}

export function createCommandWriter({ env, args }: CommandWriterOptions): CommandWriter {
  const program = isNpmScript(env) ? 'npm run -s muster --' : 'muster'
  const given = { dataDir: flagIn(args, '--data-dir'), url: flagIn(args, '--url') }
  const write = (text: string): string =>
    text.replaceAll(/(["`])muster ([^"`]+)\1/g, (_, quote: string, rest: string) => {
      const words = [program, rest, ...placesFor(rest, given)]
      return `${quote}${words.join(' ')}${quote}`
    })
  const writeExample = (line: string): string => line.replaceAll(/\bmuster (?=[a-z-])/g, `${program} `)
  return { program, write, writeHelp: (text) => write(text).replaceAll(/^(?:Usage: | +\$ ).*$/gm, writeExample) }
}

/** `npm start` and `npm run muster` of a clone. */
const isNpmScript = (env: CommandWriterOptions['env']): boolean =>
  env['npm_package_name'] === 'muster' && ['start', 'muster'].includes(env['npm_lifecycle_event'] ?? '')

type GivenPlaces = Readonly<{ dataDir: string | null; url: string | null }>

const services: readonly string[] = ['up', 'controller', 'worker', 'join']
const placeless: readonly string[] = ['help', 'nats-config', 'pack', '--version']

/** The flags of this command line that the named command takes too and does not have yet. */
function placesFor(command: string, { dataDir, url }: GivenPlaces): string[] {
  const [name = ''] = command.split(' ')
  if (placeless.includes(name)) return []
  const has = (flag: string): boolean => command.split(/[ =]/).includes(flag)
  return [
    ...(url === null || services.includes(name) || has('--url') ? [] : [`--url ${shellWord(url)}`]),
    ...(dataDir === null || has('--data-dir') ? [] : [`--data-dir ${shellWord(dataDir)}`]),
  ]
}

/** The last value of a flag, in both forms: `--flag VALUE`, `--flag=VALUE`. */
function flagIn(args: readonly string[], flag: string): string | null {
  const values = args.flatMap((arg, at) => {
    if (arg.startsWith(`${flag}=`)) return [arg.slice(flag.length + 1)]
    return arg === flag ? [args[at + 1] ?? ''] : []
  })
  return values.findLast((value) => value !== '') ?? null
}
