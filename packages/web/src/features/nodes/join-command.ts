// The command that makes a machine a node. Pure.
export interface JoinCommand {
  readonly url: string
  readonly token: string
  /** In a clone of the repository, without a `muster` on the path. */
  readonly isClone?: boolean
}

export const joinCommand = ({ url, token, isClone = false }: JoinCommand): string =>
  `${isClone ? 'npm run -s muster --' : 'muster'} worker --join ${url} --token ${token}`
