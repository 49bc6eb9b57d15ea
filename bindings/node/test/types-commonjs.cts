// Checked by `tsc --noEmit --strict` and never run: the types of require().
import qinfer = require('qinfer');

export const version: string = qinfer.version();
export const load: Promise<qinfer.Model> = qinfer.Model.load('path');
