package molbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"molbox/workflow"
)

// ErrDamaged is of bytes that are not those that were sent; errors.Is finds it.
var ErrDamaged = errors.New("the bytes are not those that were sent")

// UploadOptions say how to register a file. What is empty is as the file's name and format suggest. The name is that of
// the file without its extension, but for formats of built systems, which are many files of one name.
type UploadOptions struct {
	Name   string
	Format string
	Type   string
}

// Upload sends a file of this machine and registers it. What the service has got is compared with what was sent.
func (c *Client) Upload(ctx context.Context, path string, options UploadOptions) (workflow.FileRecord, error) {
	var none workflow.FileRecord
	file, err := os.Open(path)
	if err != nil {
		return none, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return none, err
	}
	extension := strings.ToLower(strings.TrimPrefix(filepath.Ext(path), "."))
	format := options.Format
	if format == "" {
		format = usual(extension)
	}
	if format == "" {
		return none, fmt.Errorf("%s has no extension that gives its format", path)
	}
	name := options.Name
	if name == "" {
		name = usualName(path, extension)
	}
	link, err := Get[workflow.UploadLink](ctx, c, "/submit/upload-url", url.Values{"filetype": {format}})
	if err != nil {
		return none, err
	}
	if link.MaxBytes != nil && info.Size() > *link.MaxBytes {
		return none, fmt.Errorf("%s has %d bytes, the service takes %d", path, info.Size(), *link.MaxBytes)
	}
	digest, err := c.put(ctx, file, info.Size(), link)
	if err != nil {
		return none, err
	}
	registration := workflow.FileRegistration{FileId: &link.FileId, Name: &name, Format: &format}
	if options.Type != "" {
		registration.Type = &options.Type
	}
	record, err := Post[workflow.FileRecord](ctx, c, "/submit/file/", registration)
	var refusal *Refusal
	if errors.As(err, &refusal) && refusal.isOfFile() {
		// It would be in the account's list for a day. Why it was refused is what is told, also when it stays.
		_ = Delete(ctx, c, "/info/file/"+url.PathEscape(link.FileId))
	}
	if err == nil && record.Sha256 != nil && *record.Sha256 != digest {
		err = fmt.Errorf("%s: %w", path, ErrDamaged)
	}
	return record, err
}

// isOfFile tells whether a file that was sent is refused for what it is, or for a name that another has. One that is
// refused for its identifier may be registered, by the same call.
func (r *Refusal) isOfFile() bool {
	isTaken := func(it workflow.ValidationError) bool { return len(it.Loc) > 0 && it.Loc[len(it.Loc)-1] == "name" }
	return r.Status == http.StatusUnprocessableEntity ||
		r.Status == http.StatusConflict && slices.ContainsFunc(r.Violations, isTaken)
}

// put sends a content to a link, which is a grant of its own and gets no key; the content's digest.
func (c *Client) put(ctx context.Context, file *os.File, size int64, link workflow.UploadLink) (string, error) {
	var digest hash.Hash
	answer, err := c.repeat(ctx, true, func() (*http.Response, error) {
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
		digest = sha256.New()
		body := io.TeeReader(io.LimitReader(file, size), digest)
		// Without a type that net/http knows to be a reader of files it would close it.
		request, err := http.NewRequestWithContext(ctx, http.MethodPut, link.UploadUrl, io.NopCloser(body))
		if err != nil {
			return nil, err
		}
		request.ContentLength = size
		if link.ContentType != nil {
			request.Header.Set("content-type", *link.ContentType)
		}
		return c.once(request)
	})
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(digest.Sum(nil)), answer.Body.Close()
}

// usual is the format that an extension stands for; as in src/transfer.rs, which has the names, too.
func usual(extension string) string {
	switch extension {
	case "ent":
		return "pdb"
	case "mmcif":
		return "cif"
	case "parm7":
		return "prmtop"
	case "rst7", "restrt", "ncrst":
		return "inpcrd"
	case "par":
		return "prm"
	case "ncdf", "netcdf":
		return "nc"
	case "cor":
		return "crd"
	}
	return extension
}

// usualName is what a file is registered under. Files of built systems are many of one name.
func usualName(path, extension string) string {
	name := filepath.Base(path)
	switch extension {
	case "pdb", "ent", "cif", "mmcif", "sdf", "mol", "mol2", "xml", "dcd", "xtc", "trr", "nc", "ncdf", "netcdf", "gz":
		return strings.TrimSuffix(name, filepath.Ext(name))
	}
	return name
}

// Download writes a registered file, or the bundle of a system, job or analysis, to a file of this machine. It is
// whole and its digest checked, or it is not there. A transfer that breaks is resumed where it stopped.
func (c *Client) Download(ctx context.Context, id, path string) error {
	prefix, _, _ := strings.Cut(id, "_")
	kind, isKnown := kinds[prefix]
	if !isKnown {
		return fmt.Errorf("%q is no identifier of something with a content", id)
	}
	part, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.part")
	if err != nil {
		return err
	}
	err = c.receive(ctx, "/retrieve/"+kind+"/"+url.PathEscape(id), kind, part)
	if err == nil {
		err = part.Sync()
	}
	err = errors.Join(err, part.Close())
	if err == nil {
		err = os.Rename(part.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part.Name()))
	}
	return nil
}

// receive writes a content to the end, and compares its digest.
func (c *Client) receive(ctx context.Context, path, kind string, to io.Writer) error {
	accept := "application/zip"
	if kind == "file" {
		accept = "application/octet-stream"
	}
	digest := sha256.New()
	var done int64
	var etag string
	// Breaks after which nothing has come: a large content may break any number of times.
	for inVain := 0; ; inVain++ {
		header := http.Header{"Accept": {accept}}
		if done > 0 {
			header.Set("Range", fmt.Sprintf("bytes=%d-", done))
			header.Set("If-Range", etag)
		}
		answer, err := c.send(ctx, http.MethodGet, path, nil, header, nil)
		if err != nil {
			return err
		}
		if done == 0 {
			etag = answer.Header.Get("etag")
		} else if answer.StatusCode != http.StatusPartialContent {
			return errors.Join(errors.New("it is another content by now"), answer.Body.Close())
		}
		hasLength := answer.ContentLength >= 0
		n, err := io.Copy(io.MultiWriter(to, digest), answer.Body)
		done += n
		closed := answer.Body.Close()
		if err == nil {
			return errors.Join(closed, isWhole(etag, hasLength, digest))
		}
		// What cannot be written here is not mended by the service; and a piece of it may be there.
		var local *fs.PathError
		if errors.As(err, &local) {
			return err
		}
		if n > 0 {
			inVain = 0
		}
		if etag == "" || inVain >= c.Retries || ctx.Err() != nil {
			return fmt.Errorf("after %d bytes: %w", done, err)
		}
	}
}

// isWhole compares a digest with the one that the service promised in the ETag, "sha256-<hex>".
func isWhole(etag string, hasLength bool, found hash.Hash) error {
	promised := strings.TrimPrefix(strings.Trim(strings.TrimPrefix(etag, "W/"), `"`), "sha256-")
	switch {
	case isDigest(promised) && promised != hex.EncodeToString(found.Sum(nil)):
		return ErrDamaged
	case !isDigest(promised) && !hasLength:
		return errors.New("it came without length and digest, so nobody knows where it ends")
	}
	return nil
}
