"""Files of a host in the tests: on the disk, and in memory."""


class DiskFile:
    def __init__(self, path):
        self.file = path.open("rb")

    def size(self):
        return self.file.seek(0, 2)

    def read_at(self, offset, n):
        self.file.seek(offset)
        return self.file.read(n)

    def close(self):
        self.file.close()


class MemoryFile:
    def __init__(self, data=None):
        self.data = bytearray() if data is None else data

    def size(self):
        return len(self.data)

    def read_at(self, offset, n):
        return bytes(self.data[offset : offset + n])

    def write_at(self, offset, data):
        self.data.extend(bytes(max(0, offset + len(data) - len(self.data))))
        self.data[offset : offset + len(data)] = data

    def sync(self):
        pass

    def truncate(self, n):
        del self.data[n:]

    def close(self):
        pass
