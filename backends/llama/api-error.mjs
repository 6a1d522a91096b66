// Errors in the format of OpenAI's API.
export class ApiError extends Error {
  constructor(status, message, { code = null, param = null } = {}) {
    super(message)
    this.status = status
    this.code = code
    this.param = param
  }
}

export const invalid = (message, param = null) => new ApiError(400, message, { param })

/** Any other error is a bug of this program: its reason is for the log, not for the client. */
export function errorBody(error) {
  const known = error instanceof ApiError
  const message = known ? error.message : 'the llama backend failed; its log says why'
  const type = known && error.status < 500 ? 'invalid_request_error' : 'server_error'
  return { error: { message, type, param: known ? error.param : null, code: known ? error.code : null } }
}
