// Reasons to refuse an archive. The first violation ends the unpacking; its detail is for people, its reason for metrics
// and tests.
import { FleetError } from '@muster/protocol'

export type RefusalReason =
  | 'archive_header'
  | 'archive_truncated'
  | 'archive_trailing_data'
  | 'archive_pax'
  | 'archive_size'
  | 'archive_sparse'
  | 'compression'
  | 'compression_ratio'
  | 'diff_id'
  | 'entry_type'
  | 'entry_duplicate'
  | 'path_parent'
  | 'path_absolute'
  | 'path_form'
  | 'path_encoding'
  | 'path_length'
  | 'path_depth'
  | 'root_entry'
  | 'through_symlink'
  | 'through_file'
  | 'symlink_escape'
  | 'hardlink_escape'
  | 'hardlink_target'
  | 'whiteout'
  | 'too_many_entries'
  | 'too_many_bytes'
  | 'artifact'

export function refusal(reason: RefusalReason, detail: string): FleetError {
  return new FleetError({ code: 'integrity', retry: 'never', message: `refused (${reason}): ${detail}`.slice(0, 2048) })
}

/** Names are untrusted: quoted, so that they cannot forge a log line, and cut. */
export function quote(name: string): string {
  return JSON.stringify(name.length > 200 ? `${name.slice(0, 200)}…` : name)
}
